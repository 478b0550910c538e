"""How much the truth holds."""

from __future__ import annotations

import sqlite3

from graph.social_graph import GraphTotals
from graph.visibility import EdgeFlag, UserFlag


def read_totals(connection: sqlite3.Connection) -> GraphTotals:
    """Count everything. Reads the whole file: for an operator's question, not for a request."""
    row = connection.execute(
        f"""
        SELECT
            (SELECT count(*) FROM users WHERE NOT state & {UserFlag.DELETED:d}),
            (SELECT count(*) FROM games),
            (SELECT count(*) FROM edges WHERE state & {EdgeFlag.FRIENDS:d}),
            (SELECT count(*) FROM play_times),
            (SELECT count(*) FROM outbox WHERE published_at_ms IS NULL)
        """  # noqa: S608  # constants of ours
    ).fetchone()
    return GraphTotals(*row)
