"""One write transaction: the connection, the server's time, and what it will tell through the outbox."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from graph.social_graph import ChangeKind
from graph.sqlite.columns import as_json, write_rows


@dataclass(slots=True)
class Transaction:
    """What a write needs. Writes look first and raise before they have written anything."""

    connection: sqlite3.Connection
    now_ms: int
    _told: list[tuple[str, int, int, int, int]] = field(default_factory=list)

    def tell(self, kind: ChangeKind, user_id: int, *, other_id: int = 0, ordinal: int = 0, number: int = 0) -> None:
        """Add an outbox row; it is committed together with what it tells."""
        self._told.append((kind.value, user_id, other_id, ordinal, number))

    def tell_edges(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Add an outbox row for each edge, lower id first."""
        kind = ChangeKind.EDGE.value  # a plain str: sqlite3 looks for an adapter of any other
        self._told += [(kind, low, high, 0, 0) for low, high in pairs]

    def tell_logs(self, user_ids: Iterable[int]) -> None:
        """Add an outbox row for each log that grew."""
        kind = ChangeKind.LOG.value
        self._told += [(kind, user_id, 0, 0, 0) for user_id in user_ids]

    def write_outbox(self) -> bool:
        """Write the outbox rows. Returns whether there were any."""
        if not self._told:
            return False
        if grown := [user_id for kind, user_id, *_ in self._told if kind == ChangeKind.LOG.value]:
            self._replace_logs(grown)
        write_rows(
            self.connection,
            "INSERT INTO outbox (kind, user_id, other_id, ordinal, number) VALUES {rows}",
            self._told,
        )
        return True

    def _replace_logs(self, user_ids: Sequence[int]) -> None:
        """Drop the rows that wait to tell of logs of which the new rows tell as well.

        A LOG row asks for one thing: that after it was committed somebody reads the log and brings every view to its
        end. The new row, later by its id and in the same commit as the drop, asks for that and more: nobody ever finds
        the log with neither, and who handles the new one has done what the old one asked for.

        The relay may have read the old row already, and be publishing it: its mark then finds no row, an
        acknowledgement stamps none, and the event is one more that changes nothing. Whatever forgets it has the new
        row told again, which waits, or is published and not acknowledged, or was acknowledged in a later batch than
        any that stood when this transaction began. So no rewind looks for the old row and misses what it asked for.

        Rows with a mark of any kind (published, acknowledged by a worker who was faster than the relay's mark, taken
        back by a rewind) are left: what was counted about them stays so.
        """
        self.connection.execute(
            """
            DELETE FROM outbox WHERE id IN (
                SELECT o.id FROM json_each(?) AS asked
                CROSS JOIN outbox AS o INDEXED BY outbox_waiting_logs ON o.user_id = asked.value
                WHERE o.kind = 'log' AND o.published_at_ms IS NULL AND o.acknowledged_batch IS NULL
                    AND o.taken_back IS NULL
            )
            """,
            (as_json(user_ids),),
        )
