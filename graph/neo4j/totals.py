"""How much the truth holds."""

from __future__ import annotations

from graph.neo4j.database import Database
from graph.social_graph import GraphTotals

_READ = """
    CALL () {
        MATCH (u:HeadcountUser)
        RETURN count(CASE WHEN coalesce(u.state, 0) / 2 % 2 = 0 THEN 1 END) AS users,
            sum(size(coalesce(u.plays, []))) AS plays
    }
    CALL () { MATCH (g:HeadcountGame) RETURN count(g) AS games }
    CALL () { MATCH (:HeadcountUser)-[e:HEADCOUNT_EDGE]->() WHERE e.state % 2 = 1 RETURN count(e) AS friendships }
    CALL () { MATCH (o:HeadcountWaiting) RETURN count(o) AS outbox }
    RETURN users, games, friendships, plays, outbox
"""


async def read_totals(database: Database) -> GraphTotals:
    """Count everything. Reads every user: for an operator's question, not for a request."""
    (row,) = await database.run(_READ)
    return GraphTotals(*row)
