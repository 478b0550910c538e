"""Pulled friends: a view catches up before its page is answered, with as few reads as that takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest

from graph.social_graph import GameRow, TruthUnavailableError
from graph.sqlite import SQLiteGraph
from loaders.pulled_friends import PulledFriends
from signals.pulled_logs import PulledLogs
from signals.redis import SharedRedis
from signals.views import FriendViews, Update
from tests.signals.manual_clock import ManualClock
from tests.waiting import until
from tests.workers.views_of_truth import build_view

STAR, A, B = 9, 1, 2


class CountedGraph(SQLiteGraph):
    """Counts the reads of logs and lengths; can be away."""

    away = False
    log_reads = 0
    length_reads = 0

    async def play_logs(self, user_ids: Collection[int]) -> dict[int, bytes]:
        self.log_reads += 1
        if self.away:
            raise TruthUnavailableError("away")
        return await super().play_logs(user_ids)

    async def pulled_logs(self) -> dict[int, int]:
        self.length_reads += 1
        if self.away:
            raise TruthUnavailableError("away")
        return await super().pulled_logs()


class Stand:
    """A star with two friends, both with views, where one is pushed to."""

    def __init__(self, graph: CountedGraph, redis: SharedRedis) -> None:
        self.graph = graph
        self.views = FriendViews(redis)
        self.clock = ManualClock()
        self.lengths = PulledLogs(redis, 1_000, monotonic=self.clock.monotonic)
        self.pulled = self.process()

    def process(self) -> PulledFriends:
        """What a web process has; all of them share the table of lengths here."""
        return PulledFriends(
            self.graph,
            self.views,
            self.lengths,
            wait_seconds=5,
            stale_max_seconds=60,
            monotonic=self.clock.monotonic,
        )

    async def age(self, viewer: int, pulled: PulledFriends | None = None) -> float | None:
        """One look at a page."""
        page = await self.views.page(viewer, [1])
        assert page is not None
        return await (pulled or self.pulled).age_seconds(viewer, page.pull_cursors)

    async def publish(self) -> None:
        """The lengths of now reach the process, a moment later."""
        self.clock.advance(10)
        self.lengths.take(await SQLiteGraph.pulled_logs(self.graph), self.clock.monotonic())
        self.clock.advance(10)

    async def total(self, viewer: int) -> int:
        return sum((await self.views.counts(viewer) or {}).values())


@pytest.fixture
async def stand(tmp_path: Path, shared_redis: SharedRedis) -> AsyncIterator[Stand]:
    graph = CountedGraph(tmp_path / "truth.sqlite3", fanout_max_friends=1)
    await graph.open()
    await graph.save_games([GameRow(game, None) for game in range(1, 9)])
    stand = Stand(graph, shared_redis)
    await graph.record_play(STAR, 1)
    for friend in (A, B):
        await graph.set_friendship(STAR, friend, True)
        await graph.set_friendship(friend, STAR + friend, True)  # so that both are pulled as well
    for viewer in (A, B):
        await build_view(graph, stand.views, viewer)
    await stand.publish()
    graph.log_reads = 0
    yield stand
    await stand.pulled.close()
    await graph.close()


async def test_nothing_is_read_while_cursors_stand_at_the_lengths(stand: Stand) -> None:
    assert await stand.age(A) == pytest.approx(0.01)
    stand.clock.advance(500)
    assert await stand.age(A) == pytest.approx(0.51)
    assert (stand.graph.log_reads, stand.graph.length_reads) == (0, 0)


async def test_a_page_behind_catches_up_and_the_log_serves_the_next_viewer(stand: Stand) -> None:
    await stand.graph.record_play(STAR, 2)
    assert await stand.age(A) is not None  # not published yet
    await stand.publish()
    assert await stand.age(A) is None
    assert await stand.age(A) is not None
    assert await stand.age(B) is None
    assert [await stand.total(viewer) for viewer in (A, B)] == [2, 2]
    assert stand.graph.log_reads == 1


async def test_many_pages_of_many_viewers_at_once_read_a_log_once(stand: Stand) -> None:
    await stand.graph.record_play(STAR, 2)
    await stand.publish()
    assert await asyncio.gather(*(stand.age(viewer) for viewer in (A, B) for _ in range(30))) == [None] * 60
    assert stand.graph.log_reads == 1
    assert [await stand.total(viewer) for viewer in (A, B)] == [2, 2]


async def test_a_page_that_goes_away_leaves_the_others_their_flight(stand: Stand) -> None:
    await stand.graph.record_play(STAR, 2)
    await stand.publish()
    pages = [asyncio.create_task(stand.age(A)) for _ in range(3)]
    await until(lambda: stand.graph.log_reads > 0)
    pages[0].cancel()
    assert await asyncio.gather(*pages[1:]) == [None, None]
    assert await stand.total(A) == 2


async def test_a_friend_whom_the_lengths_do_not_name_is_read_as_often_as_lengths_are(stand: Stand) -> None:
    stand.clock.advance(10)
    stand.lengths.take({}, stand.clock.monotonic())
    await stand.graph.record_play(STAR, 2)
    assert await stand.age(A) is None
    reads = stand.graph.log_reads
    assert await stand.total(A) == 2
    assert await stand.age(A) == 0.0
    assert stand.graph.log_reads == reads
    await stand.graph.record_play(STAR, 3)
    assert await stand.age(A) is not None
    stand.clock.advance(10)
    stand.lengths.take({}, stand.clock.monotonic())
    stand.clock.advance(10)
    assert await stand.age(A) is None
    assert await stand.total(A) == 3


async def test_a_cursor_ahead_of_the_lengths_is_fine_where_the_log_has_it(stand: Stand) -> None:
    await stand.graph.record_play(STAR, 2)
    await stand.views.catch_up(A, STAR, (await stand.graph.play_logs([STAR]))[STAR])  # another process was quicker
    assert await stand.age(A) is None
    reads = stand.graph.log_reads
    assert await stand.age(A) is not None
    assert stand.graph.log_reads == reads
    assert await stand.views.token(A) is not None


async def test_a_cursor_past_its_logs_end_evicts_the_view(stand: Stand) -> None:
    await stand.views.apply([Update(A, STAR, 2, 7)])  # a play that the truth does not have
    assert await stand.age(A) is None
    assert await stand.views.token(A) is None
    assert await stand.views.token(B) is not None


async def test_late_lengths_are_read_by_this_process_once_for_all_who_ask(stand: Stand) -> None:
    await stand.graph.record_play(STAR, 2)
    stand.clock.advance(3_100)
    assert await asyncio.gather(*(stand.age(viewer) for viewer in (A, B) for _ in range(20))) == [None] * 40
    assert (stand.graph.length_reads, stand.graph.log_reads) == (1, 1)
    assert [await stand.total(viewer) for viewer in (A, B)] == [2, 2]


async def test_while_the_truth_is_away_too_old_lengths_serve_for_a_minute_and_say_their_age(stand: Stand) -> None:
    stand.graph.away = True
    stand.clock.advance(40_000)
    assert await stand.age(A) == pytest.approx(40.01)
    assert await stand.age(A) == pytest.approx(40.01)
    assert stand.graph.length_reads == 1  # the truth is left alone for a second
    stand.clock.advance(25_000)
    with pytest.raises(TruthUnavailableError):
        await stand.age(A)
    stand.graph.away = False
    stand.clock.advance(1_100)
    assert await stand.age(A) == 0.0


async def test_logs_in_memory_keep_to_their_budget(stand: Stand) -> None:
    small = PulledFriends(
        stand.graph, stand.views, stand.lengths, wait_seconds=5, stale_max_seconds=60, kept_log_bytes=8,
        monotonic=stand.clock.monotonic,
    )  # fmt: skip
    for game in (2, 3, 4):
        await stand.graph.record_play(STAR, game)
        await stand.publish()
        assert await stand.age(A, small) is None
        assert await stand.age(A, small) is not None
    assert await stand.total(A) == 4
