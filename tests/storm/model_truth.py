"""The truth as plain sets with the real outbox beside it, in SQLite's memory: rows, batches, purging."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from pathlib import Path

from events.event import Event, EventKind
from graph.social_graph import OutboxRow
from graph.sqlite import outbox
from graph.sqlite.transaction import Transaction
from tests.storm.model_graph import ModelGraph

_MIGRATIONS = Path(outbox.__file__).parents[1] / "migrations" / "sqlite"
_SCHEMA = "".join(migration.read_text() for migration in sorted(_MIGRATIONS.glob("*.sql")))


class ModelTruth(ModelGraph):
    """What the workers need of `SocialGraph`.

    Args:
        user_ids: who there is.
        truth_id: which truth this is.
    """

    def __init__(self, user_ids: Collection[int], truth_id: str) -> None:
        super().__init__(user_ids)
        self.truth_id = truth_id
        self.now_ms = 1_750_000_000_000
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Nobody asks any more."""
        self._connection.close()

    @property
    def waiting_rows(self) -> int:
        """Rows to be published, as the schedule sees them."""
        return len(outbox.read_outbox(self._connection, 1_000))

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Relays of the schedules are not woken: they look when the schedule has them look."""

    def _told(self, *changes: tuple[EventKind, int, int, int, int]) -> list[Event]:
        events = super()._told(*changes)
        transaction = self._transaction()
        transaction._told += changes  # as `tell` has it, of any kind
        transaction.write_outbox()
        return events

    def _transaction(self) -> Transaction:
        return Transaction(self._connection, self.now_ms)

    # The outbox of SocialGraph

    async def outbox(self, limit: int) -> list[OutboxRow]:
        return outbox.read_outbox(self._connection, limit)

    async def mark_published(self, row_ids: Collection[int]) -> None:
        outbox.mark_published(self._transaction(), row_ids)

    async def acknowledge(self, row_ids: Collection[int]) -> int:
        return outbox.acknowledge(self._transaction(), row_ids)

    async def acknowledged_batch(self) -> int:
        return outbox.read_acknowledged_batch(self._connection)

    async def unacknowledge_after(self, batch: int) -> int | None:
        return outbox.unacknowledge_after(self._transaction(), batch)
