"""The view janitor: views unread for long leave, all others stay."""

from __future__ import annotations

import asyncio

from graph.sqlite import SQLiteGraph
from signals.redis import SharedRedis
from signals.view_keys import tag as view_tag
from signals.view_keys import whole_view
from signals.views import FriendViews
from tests.waiting import until
from tests.workers.views_of_truth import build_view
from workers.grace import finish
from workers.view_janitor import ViewJanitor

DAY = 86_400.0
NOW = 4_000_000_000.0  # after any clock that a build went by


async def test_views_leave_after_a_day_unread(
    graph: SQLiteGraph, views: FriendViews, shared_redis: SharedRedis
) -> None:
    await graph.record_play(9, 1)
    for viewer in (1, 2, 3):
        await graph.set_friendship(viewer, 9, True)
        await build_view(graph, views, viewer)
    await views.touch([1], NOW)
    await views.touch([2], NOW + DAY - 1)
    await views.touch([3], NOW + DAY + 1)
    clock = NOW + DAY
    janitor = ViewJanitor(views, DAY, clock=lambda: clock)
    assert await janitor.evict_idle() == 0  # exactly a day
    clock += 1
    assert await janitor.evict_idle() == 1
    assert [await views.token(viewer) is None for viewer in (1, 2, 3)] == [True, False, False]
    assert await shared_redis.call("EXISTS", *whole_view(view_tag(1))) == 0
    assert await janitor.evict_idle() == 0
    clock += 10 * DAY
    assert await janitor.evict_idle() == 2
    assert await views.resident_count() == 0


async def test_more_views_than_one_batch_leave_in_one_round(graph: SQLiteGraph, views: FriendViews) -> None:
    viewers = range(1, 601)
    await asyncio.gather(*[build_view(graph, views, viewer) for viewer in viewers])
    await views.touch(list(viewers), NOW)
    assert await ViewJanitor(views, DAY, clock=lambda: NOW + DAY + 1).evict_idle() == 600
    assert await views.resident_count() == 0


async def test_the_job_goes_round(graph: SQLiteGraph, views: FriendViews) -> None:
    await build_view(graph, views, 1)
    now, rounds = NOW + DAY, 0

    def clock() -> float:
        nonlocal rounds
        rounds += 1
        return now

    async def nobody() -> bool:
        return await views.resident_count() == 0

    job = asyncio.create_task(ViewJanitor(views, DAY, round_seconds=0.01, clock=clock).run())
    await until(nobody)
    now, met = 0.0, rounds
    await until(lambda: rounds > met + 1)  # none by the later time is under way: it would evict what is being built
    await build_view(graph, views, 2)
    assert not await nobody()
    now = NOW + DAY
    await until(nobody)
    await finish(job, 0)
    assert job.cancelled()
