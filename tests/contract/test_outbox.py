"""The outbox: told in the order of the commits, until it is marked as published."""

from __future__ import annotations

import asyncio

from graph.social_graph import ChangeKind, PlayRow, SocialGraph
from tests.contract.truths import Truth, add_games


async def test_rows_come_in_the_order_of_their_commits(graph: SocialGraph) -> None:
    await add_games(graph, 2)
    await graph.record_play(1, 2)
    await graph.set_friendship(2, 1, True)
    await graph.set_activity_hidden(2, True)
    await graph.record_play(1, 1)
    rows = await graph.outbox(10)
    assert [row[1:] for row in rows] == [
        (ChangeKind.PLAY, 1, 0, 1, 2),
        (ChangeKind.EDGE, 1, 2, 0, 0),
        (ChangeKind.USER, 2, 0, 0, 0),
        (ChangeKind.PLAY, 1, 0, 2, 1),
    ]
    assert [row.id for row in rows] == sorted({row.id for row in rows})
    assert await graph.outbox(2) == rows[:2]


async def test_marked_rows_are_not_handed_out_again(graph: SocialGraph) -> None:
    await add_games(graph, 5)
    for game in range(1, 6):
        await graph.record_play(1, game)
    rows = await graph.outbox(10)
    await graph.mark_published([rows[0].id, rows[3].id])
    await graph.mark_published([rows[0].id])
    await graph.mark_published([])
    assert await graph.outbox(10) == [rows[1], rows[2], rows[4]]
    assert (await graph.totals()).outbox == 3


async def test_ids_never_come_again_when_old_rows_are_dropped(graph: SocialGraph, truth: Truth) -> None:
    await add_games(graph, 4)
    seen: list[int] = []
    for game in range(1, 5):
        await graph.record_play(1, game)
        (row,) = await graph.outbox(10)
        assert row.ordinal == game
        seen.append(row.id)
        await graph.mark_published([row.id])
        await graph.acknowledge([row.id])
        truth.clock.now += 3_600
        await graph.acknowledge([])
    assert seen == sorted(set(seen))


async def test_listeners_are_called_after_commits_that_tell(graph: SocialGraph) -> None:
    await add_games(graph, 1)
    found: list[list[str]] = []
    tasks: set[asyncio.Task[None]] = set()
    called = 0

    async def look() -> None:
        found.append([row.kind for row in await graph.outbox(10)])

    def listener() -> None:
        nonlocal called
        called += 1
        tasks.add(asyncio.get_running_loop().create_task(look()))  # in the loop, or this raises

    graph.on_commit(listener)
    await graph.record_play(1, 1)
    await asyncio.gather(*tasks)
    assert found == [[ChangeKind.PLAY]]
    await graph.record_play(1, 1)
    await graph.mark_published([row.id for row in await graph.outbox(10)])
    await add_games(graph, 2)
    assert called == 1
    await graph.set_friendship(1, 2, True)
    await graph.import_rows("friends", [])
    assert called == 2
    await asyncio.gather(*tasks)


async def test_a_listener_that_fails_fails_no_write(graph: SocialGraph) -> None:
    await add_games(graph, 1)
    loop = asyncio.get_running_loop()
    noticed: list[object] = []
    loop.set_exception_handler(lambda _, context: noticed.append(context["exception"]))

    def fail() -> None:
        raise ZeroDivisionError

    graph.on_commit(fail)
    assert (await graph.record_play(1, 1)).first
    assert len(noticed) == 1


async def test_a_log_that_grows_while_its_row_is_published_is_told_again(graph: SocialGraph) -> None:
    """Whatever becomes of the row that waited: what came after it was read is told by a row that comes after it."""
    await graph.import_rows("plays", [PlayRow(1, 1)])
    read = await graph.outbox(10)
    await graph.import_rows("plays", [PlayRow(1, 2)])
    await graph.mark_published([row.id for row in read])
    await graph.acknowledge([row.id for row in read])
    (after,) = await graph.outbox(10)
    assert (after.kind, after.user_id) == (ChangeKind.LOG, 1)
    assert after.id > read[0].id
    await graph.mark_published([after.id])
    batch = await graph.acknowledge([after.id])
    assert await graph.unacknowledge_after(batch - 1) == 1
    assert await graph.outbox(10) == [after]
    await graph.import_rows("plays", [PlayRow(1, 3)])
    assert (await graph.outbox(10))[-1].id > after.id
