"""The truth that the settings choose."""

from __future__ import annotations

from graph.social_graph import SocialGraph
from graph.sqlite import SQLiteGraph
from settings import Settings


def choose_truth(settings: Settings) -> SocialGraph:
    """Neo4j where HEADCOUNT_NEO4J_URI names one, else the SQLite file in the data folder; not yet open."""
    if settings.neo4j_uri is None:
        return SQLiteGraph(settings.data_dir / "truth.sqlite3", fanout_max_friends=settings.fanout_max_friends)
    from graph.neo4j import Neo4jGraph  # its driver takes a fifth of a second to load

    password = settings.neo4j_password
    return Neo4jGraph(
        settings.neo4j_uri,
        user=settings.neo4j_user,
        password=None if password is None else password.get_secret_value(),
        database=settings.neo4j_database,
        fanout_max_friends=settings.fanout_max_friends,
    )
