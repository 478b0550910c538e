"""The outbox: read, marked as published, acknowledged in numbered batches, and told again after a rewind."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from graph.social_graph import ChangeKind, OutboxRow
from graph.sqlite.columns import as_json, columns
from graph.sqlite.transaction import Transaction

#: A row is kept this long after it was acknowledged.
KEPT_MS = 600_000
#: How many rows a call drops beyond those that it acknowledges, so that purging keeps up.
PURGE_AHEAD = 1_000


def read_outbox(connection: sqlite3.Connection, limit: int) -> list[OutboxRow]:
    """The oldest rows not yet published, in the order of their commits."""
    (rows,) = columns(
        connection,
        """
        SELECT json_group_array(json_array(id, kind, user_id, other_id, ordinal, number)) FROM (
            SELECT * FROM outbox INDEXED BY outbox_waiting WHERE published_at_ms IS NULL ORDER BY id LIMIT ?
        )
        """,
        (limit,),
    )
    return [
        OutboxRow(row_id, ChangeKind(kind), user_id, other_id, ordinal, number)
        for row_id, kind, user_id, other_id, ordinal, number in rows
    ]


def mark_published(transaction: Transaction, row_ids: Collection[int]) -> None:
    """Mark rows as published."""
    transaction.connection.execute(
        """
        UPDATE outbox SET published_at_ms = ?
        WHERE id IN (SELECT value FROM json_each(?)) AND published_at_ms IS NULL
        """,
        (transaction.now_ms, as_json(row_ids)),
    )


def read_acknowledged_batch(connection: sqlite3.Connection) -> int:
    """Number of the last batch, 0 before the first."""
    (batch,) = connection.execute("SELECT acknowledged_batch FROM truth").fetchone()
    return int(batch)


def acknowledge(transaction: Transaction, row_ids: Collection[int]) -> int:
    """Stamp rows with the number of a new batch, and drop some of those that were acknowledged long ago.

    A row that has a batch keeps it. One that has to be published (again) still will be.
    """
    connection = transaction.connection
    connection.execute("UPDATE truth SET acknowledged_batch = acknowledged_batch + 1")
    batch = read_acknowledged_batch(connection)
    connection.execute(
        """
        UPDATE outbox SET acknowledged_batch = ?, acknowledged_at_ms = ?
        WHERE id IN (SELECT value FROM json_each(?)) AND acknowledged_batch IS NULL
        """,
        (batch, transaction.now_ms, as_json(row_ids)),
    )
    _purge(transaction, len(row_ids) + PURGE_AHEAD)
    return batch


def unacknowledge_after(transaction: Transaction, batch: int) -> int | None:
    """Have rows published again: those of later batches, and those that were published and never acknowledged.

    Returns how many, or None where a row of a later batch has been dropped already; then nothing changes.
    """
    connection = transaction.connection
    (purged,) = connection.execute("SELECT purged_batch FROM truth").fetchone()
    if batch < purged:
        return None
    later = connection.execute(
        """
        UPDATE outbox
        SET published_at_ms = NULL, acknowledged_batch = NULL, acknowledged_at_ms = NULL, taken_back = 1
        WHERE acknowledged_batch > ?
        """,
        (batch,),
    )
    never = connection.execute(
        """
        UPDATE outbox SET published_at_ms = NULL, taken_back = 1
        WHERE published_at_ms IS NOT NULL AND acknowledged_batch IS NULL
        """
    )
    return later.rowcount + never.rowcount


def _purge(transaction: Transaction, limit: int) -> None:
    connection, before_ms = transaction.connection, transaction.now_ms - KEPT_MS
    oldest = connection.execute(
        """
        SELECT acknowledged_at_ms FROM outbox
        WHERE acknowledged_batch IS NOT NULL ORDER BY acknowledged_batch LIMIT 1
        """
    ).fetchone()
    if oldest is None or oldest[0] >= before_ms:
        return
    old = """
        SELECT id FROM (
            SELECT * FROM outbox WHERE acknowledged_batch IS NOT NULL ORDER BY acknowledged_batch LIMIT ?
        ) WHERE acknowledged_at_ms < ? AND published_at_ms IS NOT NULL
        """
    connection.execute(
        f"""
        UPDATE truth SET purged_batch = max(purged_batch, coalesce(
            (SELECT max(acknowledged_batch) FROM outbox WHERE id IN ({old})), 0
        ))
        """,  # noqa: S608  # a text of ours
        (limit, before_ms),
    )
    connection.execute(f"DELETE FROM outbox WHERE id IN ({old})", (limit, before_ms))  # noqa: S608  # a text of ours
