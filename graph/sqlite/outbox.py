"""The outbox read, and marked as published."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from graph.social_graph import ChangeKind, OutboxRow
from graph.sqlite.columns import as_json, columns
from graph.sqlite.transaction import Transaction

#: A published row is kept this long.
KEPT_MS = 600_000
#: How many rows at the outbox's old end a call looks at beyond those that it marks, so that purging keeps up.
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
    """Mark rows as published, and drop some of those that were published longer ago than they are kept."""
    transaction.connection.execute(
        """
        UPDATE outbox SET published_at_ms = ?
        WHERE id IN (SELECT value FROM json_each(?)) AND published_at_ms IS NULL
        """,
        (transaction.now_ms, as_json(row_ids)),
    )
    transaction.connection.execute(
        """
        DELETE FROM outbox WHERE published_at_ms < ? AND id IN (SELECT id FROM outbox ORDER BY id LIMIT ?)
        """,
        (transaction.now_ms - KEPT_MS, len(row_ids) + PURGE_AHEAD),
    )
