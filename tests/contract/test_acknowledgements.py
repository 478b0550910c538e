"""Acknowledgements: numbered batches, taken back after a rewind as long as their rows are kept."""

from __future__ import annotations

import asyncio

from graph.social_graph import SocialGraph
from tests.contract.truths import Truth, add_games


async def published(graph: SocialGraph, plays: int, *, user: int = 1) -> list[int]:
    """The ids of so many rows, published."""
    await add_games(graph, plays)
    for game in range(1, plays + 1):
        await graph.record_play(user, game)
    ids = [row.id for row in await graph.outbox(1_000)]
    await graph.mark_published(ids)
    return ids


async def handed_out(graph: SocialGraph) -> list[int]:
    return [row.id for row in await graph.outbox(1_000)]


async def test_batches_are_numbered_densely(graph: SocialGraph, truth: Truth) -> None:
    assert await graph.acknowledged_batch() == 0
    ids = await published(graph, 3)
    assert await graph.acknowledge(ids[:1]) == 1
    assert await graph.acknowledge([]) == 2
    assert await graph.acknowledge([2**62]) == 3
    assert sorted(await asyncio.gather(*[graph.acknowledge(ids[1:]) for _ in range(5)])) == [4, 5, 6, 7, 8]
    assert await graph.acknowledged_batch() == 8
    other = await truth.open()
    assert await other.acknowledged_batch() == 8
    assert await other.acknowledge([]) == 9


async def test_later_batches_are_taken_back_and_earlier_ones_stay(graph: SocialGraph) -> None:
    ids = await published(graph, 4)
    for row_id in ids:
        await graph.acknowledge([row_id])
    assert await handed_out(graph) == []
    assert await graph.unacknowledge_after(2) == 2
    assert await handed_out(graph) == ids[2:]
    assert await graph.acknowledged_batch() == 4, "a number never comes again"
    await graph.mark_published(ids[2:])
    assert await graph.acknowledge(ids[2:]) == 5
    assert await graph.unacknowledge_after(5) == 0
    assert await graph.unacknowledge_after(2) == 2
    assert await graph.unacknowledge_after(0) == 2, "those that wait already are no news"
    assert await handed_out(graph) == ids


async def test_published_rows_that_nobody_acknowledged_are_taken_back_too(graph: SocialGraph) -> None:
    ids = await published(graph, 3)
    await graph.acknowledge(ids[:1])
    assert await graph.unacknowledge_after(await graph.acknowledged_batch()) == 2
    assert await handed_out(graph) == ids[1:]
    assert await graph.unacknowledge_after(1) == 0


async def test_a_row_keeps_its_first_batch(graph: SocialGraph) -> None:
    (row_id,) = await published(graph, 1)
    await graph.acknowledge([row_id])
    await graph.acknowledge([row_id])
    assert await graph.unacknowledge_after(1) == 0
    assert await graph.unacknowledge_after(0) == 1


async def test_a_row_to_be_published_again_is_though_a_late_worker_acknowledges_it(graph: SocialGraph) -> None:
    (row_id,) = await published(graph, 1)
    await graph.unacknowledge_after(0)
    await graph.acknowledge([row_id])
    assert await handed_out(graph) == [row_id]
    await graph.mark_published([row_id])
    assert await handed_out(graph) == []


async def test_rows_are_kept_for_ten_minutes_past_their_acknowledgement(graph: SocialGraph, truth: Truth) -> None:
    first, second, third = await published(graph, 3)
    truth.clock.now += 3_600  # published, not acknowledged: kept for ever
    await graph.acknowledge([first])
    truth.clock.now += 400
    await graph.acknowledge([second])
    truth.clock.now += 199
    await graph.acknowledge([])
    assert await graph.unacknowledge_after(0) == 3
    await graph.mark_published([first, second, third])
    for row_id in (first, second):
        await graph.acknowledge([row_id])
    truth.clock.now += 601
    assert await graph.acknowledge([third]) == 6
    assert await graph.unacknowledge_after(3) is None, "rows of batches 4 and 5 are gone"
    assert await graph.unacknowledge_after(4) is None
    assert await handed_out(graph) == [], "and nothing was changed"
    assert await graph.unacknowledge_after(5) == 1
    assert await handed_out(graph) == [third]


async def test_what_waits_to_be_published_again_is_not_dropped(graph: SocialGraph, truth: Truth) -> None:
    (row_id,) = await published(graph, 1)
    await graph.unacknowledge_after(0)
    await graph.acknowledge([row_id])
    truth.clock.now += 3_600
    await graph.acknowledge([])
    assert await handed_out(graph) == [row_id]


async def test_batches_are_taken_back_while_others_acknowledge(graph: SocialGraph) -> None:
    """Every row is published again, or has a batch later than what was taken back, or neither changed."""
    ids = await published(graph, 40)

    async def acknowledge() -> None:
        for row_id in ids:
            await graph.acknowledge([row_id])

    running = asyncio.create_task(acknowledge())
    again: set[int] = set()
    while not running.done():
        top = await graph.acknowledged_batch()
        await graph.unacknowledge_after(max(0, top - 3))
        rows = await handed_out(graph)
        again.update(rows)
        await graph.mark_published(rows)
    await running
    assert again
    assert await graph.acknowledged_batch() == 40
    await graph.unacknowledge_after(0)
    assert await handed_out(graph) == ids
