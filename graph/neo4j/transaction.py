"""One write transaction: the driver's, the server's time, and what it will tell through the outbox."""

from __future__ import annotations

from dataclasses import dataclass, field

import neo4j

from graph.neo4j.database import Values
from graph.neo4j.outbox_ids import OutboxIds
from graph.social_graph import ChangeKind

_WRITE_OUTBOX = """
    UNWIND $rows AS row
    CREATE (:HeadcountOutbox:HeadcountWaiting {
        id: row[0], kind: row[1], user: row[2], other: row[3], ordinal: row[4], number: row[5]
    })
"""


@dataclass(slots=True)
class Transaction:
    """What a write needs. Writes lock what they look at, users by ascending id, and look before they write."""

    driver_transaction: neo4j.AsyncTransaction
    now_ms: int
    ids: OutboxIds
    fanout_max_friends: int = 0
    told: bool = False
    _told: list[tuple[ChangeKind, int, int, int, int]] = field(default_factory=list)

    async def run(self, text: str, /, **parameters: object) -> list[Values]:
        """Run a statement of the transaction to its end."""
        result = await self.driver_transaction.run(text, parameters)
        return [record.values() async for record in result]

    def tell(self, kind: ChangeKind, user_id: int, *, other_id: int = 0, ordinal: int = 0, number: int = 0) -> None:
        """Add an outbox row; it is committed together with what it tells."""
        self._told.append((kind, user_id, other_id, ordinal, number))

    async def write_outbox(self) -> None:
        """Write the outbox rows told so far."""
        if not self._told:
            return
        first = self.ids.take(len(self._told))
        rows = [[first + place, kind.value, *told] for place, (kind, *told) in enumerate(self._told)]
        self._told.clear()
        self.told = True
        await self.run(_WRITE_OUTBOX, rows=rows)
