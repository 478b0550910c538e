"""Cold pages: exact at once, one read of the truth for all who wait, and a view afterwards."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from structlog.testing import capture_logs

from graph.social_graph import GameRow, SeenLog, TruthUnavailableError
from graph.sqlite import SQLiteGraph
from graph.visibility import CursorState
from loaders.cold_pages import BUILD_ROUNDS, ColdPages
from loaders.friend_plays import FriendPlays
from signals.outcome import BuildResult, BuildStatus
from signals.redis import RoundTrips, SharedRedis, round_trips
from signals.views import FriendViews, Outcome, Update

VIEWER = 1


class HeldGraph(SQLiteGraph):
    """The real truth; a test may hold its reads before they begin to read, count them, or break them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reads: list[Collection[int] | None] = []
        self.begun = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()
        self.failure: Exception | None = None

    async def seen_logs(self, viewer_id: int, owner_ids: Collection[int] | None = None) -> dict[int, SeenLog]:
        self.reads.append(owner_ids)
        self.begun.set()
        if self.failure is not None:
            raise self.failure
        seen = await super().seen_logs(viewer_id, owner_ids)  # the moment of the read, told late
        await self.free.wait()
        return seen


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[HeldGraph]:
    graph = HeldGraph(tmp_path / "truth.sqlite")
    await graph.open()
    await graph.save_games([GameRow(100 + number, None) for number in range(1, 81)])
    for friend in (2, 3, 4):
        await graph.set_friendship(VIEWER, friend, True)
    for user, game in ((2, 101), (3, 101), (1, 101), (2, 165), (4, 102), (5, 101)):
        await graph.record_play(user, game)
    yield graph
    await graph.close()


@pytest.fixture
def views(shared_redis: SharedRedis) -> FriendViews:
    return FriendViews(shared_redis)


@pytest.fixture
async def cold_pages(graph: HeldGraph, views: FriendViews) -> AsyncIterator[ColdPages]:
    cold_pages = ColdPages(graph, views, claim_seconds=60)
    yield cold_pages
    graph.free.set()
    await cold_pages.close()


async def until_read(graph: HeldGraph) -> None:
    """Wait until a read of the truth has begun."""
    async with asyncio.timeout(10):
        await graph.begun.wait()


async def test_a_cold_page_is_exact_and_leaves_an_exact_view(cold_pages: ColdPages, views: FriendViews) -> None:
    assert await cold_pages.counts(VIEWER, [65, 1, 2, 1, 80]) == [1, 2, 1, 2, 0]
    await cold_pages.close()
    page = await views.page(VIEWER, [65, 1, 2, 1, 80])
    assert page is not None
    assert list(page.counts) == [1, 2, 1, 2, 0]
    view = await views.view(VIEWER)
    assert view is not None
    assert {owner: row.cursor for owner, row in view.rows.items()} == {2: 2, 3: 1, 4: 1}


@pytest.mark.parametrize("viewer_id", [5, 999, 2**63 - 1])
async def test_without_friends_or_never_seen_all_is_0_and_a_view_stands_ready(
    cold_pages: ColdPages, views: FriendViews, viewer_id: int
) -> None:
    assert await cold_pages.counts(viewer_id, [1, 2]) == [0, 0]
    await cold_pages.close()
    assert await views.counts(viewer_id) == {}


async def test_many_at_once_are_one_read(cold_pages: ColdPages, graph: HeldGraph) -> None:
    pages = await asyncio.gather(*[cold_pages.counts(VIEWER, [1 + place % 3]) for place in range(100)])
    assert pages == [[(2, 1, 0)[place % 3]] for place in range(100)]
    assert graph.reads == [None]


async def test_who_comes_after_the_read_began_gets_a_later_one(cold_pages: ColdPages, graph: HeldGraph) -> None:
    graph.free.clear()
    first = asyncio.create_task(cold_pages.counts(VIEWER, [2]))
    await until_read(graph)
    await graph.record_play(3, 102)  # acknowledged to the readers below, maybe missed by the first
    later = [asyncio.create_task(cold_pages.counts(VIEWER, [2])) for _ in range(20)]
    await asyncio.sleep(0)
    assert graph.reads == [None]  # one reads, one waits
    graph.free.set()
    assert await first in ([1], [2])
    assert await asyncio.gather(*later) == [[2]] * 20
    assert graph.reads == [None, None]


async def test_who_goes_away_leaves_the_others_their_answer(cold_pages: ColdPages, graph: HeldGraph) -> None:
    graph.free.clear()
    waiters = [asyncio.create_task(cold_pages.counts(VIEWER, [1])) for _ in range(3)]
    await until_read(graph)
    waiters[0].cancel()  # the one that began the flight
    await asyncio.wait([waiters[0]])
    graph.free.set()
    assert await asyncio.gather(*waiters[1:]) == [[2], [2]]
    assert waiters[0].cancelled()


async def test_all_gone_the_view_is_built_all_the_same(
    cold_pages: ColdPages, graph: HeldGraph, views: FriendViews
) -> None:
    graph.free.clear()
    waiter = asyncio.create_task(cold_pages.counts(VIEWER, [1]))
    await until_read(graph)
    waiter.cancel()
    graph.free.set()
    await cold_pages.close()
    assert await views.counts(VIEWER) == {1: 2, 2: 1, 65: 1}


async def test_a_play_while_the_view_is_built_is_read_again(
    cold_pages: ColdPages, graph: HeldGraph, views: FriendViews
) -> None:
    graph.free.clear()
    waiter = asyncio.create_task(cold_pages.counts(VIEWER, [2]))
    await until_read(graph)
    play = await graph.record_play(3, 102)
    await graph.set_friendship(VIEWER, 4, False)
    assert await views.apply([Update(VIEWER, 3, play.ordinal, 2)]) == [Outcome.BEING_BUILT]
    assert await views.edge(VIEWER, 4, await views.token(VIEWER), 2, 0) == Outcome.BEING_BUILT
    graph.free.set()
    await waiter
    await cold_pages.close()
    assert [sorted(owners) if owners else owners for owners in graph.reads] == [None, [3, 4]]
    view = await views.view(VIEWER)
    assert view is not None
    assert view.counts == {1: 2, 2: 1, 65: 1}
    assert view.rows.keys() == {2, 3}  # edges that are off are not written


async def test_friends_who_never_rest_end_the_build_and_the_next_read_starts_over(
    graph: HeldGraph, shared_redis: SharedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 0

    async def always_dirty(_: FriendViews, __: int, token: str, *___: object) -> BuildResult:
        nonlocal rounds
        rounds += 1
        return BuildResult(BuildStatus.DIRTY, token, [3])

    with monkeypatch.context() as patch:
        patch.setattr(FriendViews, "build", always_dirty)
        cold_pages = ColdPages(graph, FriendViews(shared_redis, dead_build_seconds=0))
        with capture_logs() as logs:
            assert await cold_pages.counts(VIEWER, [1]) == [2]
            await cold_pages.close()
    assert rounds == BUILD_ROUNDS
    assert [entry["event"] for entry in logs] == ["view_not_built"]
    assert await cold_pages.counts(VIEWER, [1]) == [2]
    await cold_pages.close()
    assert await FriendViews(shared_redis).counts(VIEWER) == {1: 2, 2: 1, 65: 1}


async def test_with_redis_away_a_page_still_comes(cold_pages: ColdPages, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise RedisConnectionError("refused")

    monkeypatch.setattr(SharedRedis, "run", away)
    with capture_logs() as logs:
        assert await cold_pages.counts(VIEWER, [1]) == [2]
        await cold_pages.close()
    assert [entry["event"] for entry in logs] == ["view_not_claimed"]


async def test_a_redis_that_hangs_delays_a_page_no_longer_than_a_claim_may(
    graph: HeldGraph, views: FriendViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(SharedRedis, "run", hangs)
    cold_pages = ColdPages(graph, views, claim_seconds=0)
    with capture_logs() as logs:
        assert await cold_pages.counts(VIEWER, [1]) == [2]
    assert [entry["event"] for entry in logs] == ["view_not_claimed"]
    await cold_pages.close()


async def test_redis_lost_before_the_build_leaves_the_view_cold(
    cold_pages: ColdPages, graph: HeldGraph, shared_redis: SharedRedis, views: FriendViews
) -> None:
    graph.free.clear()
    waiter = asyncio.create_task(cold_pages.counts(VIEWER, [1]))
    await until_read(graph)
    await shared_redis.call("FLUSHALL")
    graph.free.set()
    assert await waiter == [2]
    await cold_pages.close()
    assert await views.view(VIEWER) is None


async def test_a_truth_that_fails_tells_everybody_and_the_next_read_tries_again(
    cold_pages: ColdPages, graph: HeldGraph
) -> None:
    graph.failure = TruthUnavailableError("disk I/O error")
    answers = await asyncio.gather(*[cold_pages.counts(VIEWER, [1]) for _ in range(3)], return_exceptions=True)
    assert [type(answer) for answer in answers] == [TruthUnavailableError] * 3
    graph.failure = None
    assert await cold_pages.counts(VIEWER, [1]) == [2]


async def test_asked_not_to_claim_it_builds_nothing(cold_pages: ColdPages, views: FriendViews) -> None:
    assert await cold_pages.counts(VIEWER, [1], claim=False) == [2]
    await cold_pages.close()
    assert await views.view(VIEWER) is None


async def test_past_the_most_builds_pages_are_answered_and_nothing_is_claimed(
    graph: HeldGraph, views: FriendViews
) -> None:
    cold_pages = ColdPages(graph, views, max_builds=0)
    assert await cold_pages.counts(VIEWER, [1]) == [2]
    await cold_pages.close()
    assert await views.view(VIEWER) is None


async def test_the_build_is_not_on_the_readers_account(cold_pages: ColdPages, views: FriendViews) -> None:
    trips = RoundTrips()
    round_trips.set(trips)
    await views.token(VIEWER)
    await views.claim(2, "scripts are loaded now")
    before = trips.count
    await cold_pages.counts(VIEWER, [1])
    await cold_pages.close()
    assert trips.count == before + 1  # the claim
    assert await views.counts(VIEWER) is not None


async def test_nothing_is_kept_of_pages_that_were_answered(cold_pages: ColdPages) -> None:
    await asyncio.gather(*[cold_pages.counts(viewer, [1]) for viewer in range(1, 200) for _ in range(2)])
    await cold_pages.close()
    await asyncio.sleep(0)
    assert not cold_pages._newest
    assert not cold_pages._builds
    assert not cold_pages._flights


class TestFriendPlays:
    def seen(self, *logs: list[int]) -> dict[int, SeenLog]:

        return {
            place: SeenLog(1, CursorState.PUSH, struct.pack(f"<{len(log)}I", *log)) for place, log in enumerate(logs)
        }

    def test_few_games_and_numbers_far_apart_are_counted_alike(self) -> None:
        for far in (70, 2**32 - 1):
            plays = FriendPlays(self.seen([1, 65, far], [65], [], [far, 65]))
            assert plays.counts([65, far, 1, 2, 2**32 - 2, 65]) == [3, 2, 1, 0, 0, 3]
            assert plays.all() == {1: 1, 65: 3, far: 2}

    def test_nobody_played_anything(self) -> None:
        plays = FriendPlays({})
        assert plays.counts([1, 2**32 - 1]) == [0, 0]
        assert plays.counts([]) == []
        assert plays.all() == {}
