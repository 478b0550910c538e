"""Lists of edges read whole.

Neo4j reads committed: a reader who walks a user's relationships while another commit rearranges them may miss some. How
many friendships there are stands on the user, so a list is whole where the two agree; where they do not after a few
more looks, it is read under the user's lock, which no commit holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from graph.neo4j.database import Database, Values

LOOKS = 4
WAIT_SECONDS = 0.002

#: Before a statement that reads `$ids`: nobody changes their edges until it is done.
LOCK_FIRST = """
    UNWIND $ids AS id
    MATCH (locked:HeadcountUser {id: id}) SET locked.id = locked.id
    WITH DISTINCT 1 AS locked
"""


async def read_whole(
    database: Database, text: str, locked_text: str, whole: Callable[[list[Values]], bool], **parameters: Any
) -> list[Values]:
    """Run `text` until `whole` says that its answer is; at last run `locked_text`."""
    for look in range(LOOKS):
        rows = await database.run(text, **parameters)
        if whole(rows):
            return rows
        await asyncio.sleep(WAIT_SECONDS * (look + 1))
    return await database.run(locked_text, **parameters)
