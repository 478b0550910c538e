"""The outbox: read, marked as published, acknowledged in numbered batches, and told again after a rewind.

Whatever is read here is locked first, which waits for the commit that wrote it: a row that is handed out is of a
transaction that can be read whole.
"""

from __future__ import annotations

from collections.abc import Collection

from graph.neo4j.database import Database
from graph.neo4j.transaction import Transaction
from graph.social_graph import ChangeKind, OutboxRow

#: A row is kept this long after it was acknowledged.
KEPT_MS = 600_000
#: How many rows a call drops beyond those that it acknowledges, so that purging keeps up.
PURGE_AHEAD = 1_000

_READ = """
    MATCH (locked:HeadcountWaiting) USING INDEX locked:HeadcountWaiting(id) WHERE locked.id > 0
    WITH locked ORDER BY locked.id LIMIT $limit
    SET locked.id = locked.id
    WITH collect(locked.id) AS ids
    UNWIND ids AS id
    MATCH (o:HeadcountWaiting {id: id})
    RETURN collect([o.id, o.kind, o.user, o.other, o.ordinal, o.number])
"""
_LOCK = """
    UNWIND $ids AS id
    MATCH (locked:HeadcountOutbox {id: id}) SET locked.id = locked.id
    WITH collect(id) AS ids
    UNWIND ids AS id
"""
_MARK_PUBLISHED = (
    _LOCK
    + """
    MATCH (o:HeadcountWaiting {id: id})
    SET o.published = $now
    REMOVE o:HeadcountWaiting
    FOREACH (_ IN CASE WHEN o.batch IS NULL THEN [1] ELSE [] END | SET o:HeadcountPublished)
"""
)
_ACKNOWLEDGE = (
    _LOCK
    + """
    MATCH (o:HeadcountOutbox {id: id}) WHERE o.batch IS NULL
    SET o.batch = $batch, o.acknowledged = $now
    REMOVE o:HeadcountPublished
"""
)
_LOCK_COUNTER = """
    MATCH (locked:HeadcountCounter {name: "batches"}) SET locked.name = locked.name
    WITH DISTINCT 1 AS locked
    MATCH (c:HeadcountCounter {name: "batches"})
    RETURN coalesce(c.last, 0), coalesce(c.purged, 0)
"""
_WRITE_COUNTER = 'MATCH (c:HeadcountCounter {name: "batches"}) SET c.last = $last, c.purged = $purged'
_READ_COUNTER = 'MATCH (c:HeadcountCounter {name: "batches"}) RETURN coalesce(c.last, 0)'
_TAKE_BACK_LATER = """
    MATCH (o:HeadcountOutbox) WHERE o.batch > $batch
    SET o:HeadcountWaiting
    REMOVE o.batch, o.acknowledged, o.published
    RETURN count(o)
"""
_TAKE_BACK_PUBLISHED = """
    MATCH (o:HeadcountPublished)
    SET o:HeadcountWaiting
    REMOVE o.published, o:HeadcountPublished
    RETURN count(o)
"""
_PURGE = """
    MATCH (o:HeadcountOutbox) WHERE o.batch > 0
    WITH o ORDER BY o.batch LIMIT $limit
    WITH o WHERE o.acknowledged < $before AND NOT o:HeadcountWaiting
    WITH o, o.batch AS batch
    DELETE o
    RETURN max(batch)
"""


async def read_outbox(database: Database, limit: int) -> list[OutboxRow]:
    """The oldest rows not yet published, nearly in the order of their commits; a user's plays by their ordinals."""
    ((found,),) = await database.run(_READ, limit=limit)
    rows = [OutboxRow(row_id, ChangeKind(kind), *rest) for row_id, kind, *rest in found]
    # Two processes' clocks may have put a user's plays the other way round: told in their order, none is a gap.
    plays: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        if row.kind is ChangeKind.PLAY:
            plays.setdefault(row.user_id, []).append(place)
    for places in plays.values():
        ordered = sorted((rows[place] for place in places), key=lambda row: row.ordinal)
        for place, row in zip(places, ordered, strict=True):
            rows[place] = row
    return rows


async def mark_published(transaction: Transaction, row_ids: Collection[int]) -> None:
    """Mark rows as published."""
    if row_ids:
        await transaction.run(_MARK_PUBLISHED, ids=sorted(row_ids), now=transaction.now_ms)


async def read_acknowledged_batch(database: Database) -> int:
    """Number of the last batch, 0 before the first."""
    ((batch,),) = await database.run(_READ_COUNTER)
    return int(batch)


async def acknowledge(transaction: Transaction, row_ids: Collection[int]) -> int:
    """Stamp rows with the number of a new batch, and drop some of those that were acknowledged long ago.

    A row that has a batch keeps it. One that has to be published (again) still will be.
    """
    ((last, purged),) = await transaction.run(_LOCK_COUNTER)
    batch: int = last + 1
    if row_ids:
        await transaction.run(_ACKNOWLEDGE, ids=sorted(row_ids), batch=batch, now=transaction.now_ms)
    before = transaction.now_ms - KEPT_MS
    ((dropped,),) = await transaction.run(_PURGE, limit=len(row_ids) + PURGE_AHEAD, before=before)
    await transaction.run(_WRITE_COUNTER, last=batch, purged=max(purged, dropped or 0))
    return batch


async def unacknowledge_after(transaction: Transaction, batch: int) -> int | None:
    """Have rows published again: those of later batches, and those that were published and never acknowledged.

    Returns how many, or None where a row of a later batch has been dropped already; then nothing changes.
    """
    ((_, purged),) = await transaction.run(_LOCK_COUNTER)
    if batch < purged:
        return None
    ((later,),) = await transaction.run(_TAKE_BACK_LATER, batch=batch)
    ((never,),) = await transaction.run(_TAKE_BACK_PUBLISHED)
    return int(later + never)
