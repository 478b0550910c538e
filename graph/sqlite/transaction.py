"""One write transaction: the connection, the server's time, and what it will tell through the outbox."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

from graph.social_graph import ChangeKind
from graph.sqlite.columns import write_rows


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
        write_rows(
            self.connection,
            "INSERT INTO outbox (kind, user_id, other_id, ordinal, number) VALUES {rows}",
            self._told,
        )
        return True
