"""The truth that the settings choose."""

from __future__ import annotations

from graph.social_graph import SocialGraph
from graph.sqlite import SQLiteGraph
from settings import Settings


def choose_truth(settings: Settings, *, start_seconds: float | None = None) -> SocialGraph:
    """Neo4j where HEADCOUNT_NEO4J_URI names one, else the SQLite file in the data folder; not yet open.

    Args:
        settings: where it is.
        start_seconds: how long opening waits for a server that does not answer; None is the adapter's own patience.
    """
    if settings.neo4j_uri is None:
        return SQLiteGraph(settings.data_dir / "truth.sqlite3", fanout_max_friends=settings.fanout_max_friends)
    from graph.neo4j import START_SECONDS, Neo4jGraph  # its driver takes a fifth of a second to load

    password = settings.neo4j_password
    return Neo4jGraph(
        settings.neo4j_uri,
        user=settings.neo4j_user,
        password=None if password is None else password.get_secret_value(),
        database=settings.neo4j_database,
        fanout_max_friends=settings.fanout_max_friends,
        start_seconds=START_SECONDS if start_seconds is None else start_seconds,
    )
