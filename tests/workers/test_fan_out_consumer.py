"""Consumers: nothing is lost when workers die, stores go away or events are poison; nothing is set aside unmended."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis.asyncio

from events.dead_letters import DeadLetters
from events.event import PARTITIONS, Event
from events.redis_streams import Depth, EventLog, stream_key
from graph.social_graph import TruthUnavailableError
from graph.sqlite import SQLiteGraph
from signals.embedded_redis import EmbeddedRedis
from signals.redis import SharedRedis, connect
from signals.views import FriendViews
from tests.waiting import until
from tests.workers.views_of_truth import build_view, true_counts
from workers.fan_out import FanOut
from workers.fan_out_consumer import Pace, fan_out_jobs
from workers.outbox_relay import event_of
from workers.supervisor import Supervisor

A, B, C = 101, 102, 103
#: Everything soon; an entry is claimed after a fifth of a second.
SOON = Pace(block_ms=50, claim_idle_ms=200, tidy_seconds=0.1)


class FailingFanOut(FanOut):
    """Fails for events of some users, with the errors that are handed in."""

    def __init__(self, graph: SQLiteGraph, views: FriendViews) -> None:
        super().__init__(graph, views)
        self.errors: dict[int, Callable[[], Exception]] = {}
        self.failures = 0

    async def handle(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.user_id in self.errors:
                self.failures += 1
                raise self.errors[event.user_id]()
        await super().handle(events)


def a_bug() -> Exception:
    return ZeroDivisionError("a bug")


class StuckFanOut(FanOut):
    """Begins an event and comes no further until it is let go."""

    def __init__(self, graph: SQLiteGraph, views: FriendViews) -> None:
        super().__init__(graph, views)
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()

    async def handle(self, events: Sequence[Event]) -> None:
        self.begun.set()
        await self.let_go.wait()
        await super().handle(events)


@pytest.fixture
def log(events_client: redis.asyncio.Redis) -> EventLog:
    return EventLog(events_client)


@pytest.fixture
def letters(events_client: redis.asyncio.Redis) -> DeadLetters:
    return DeadLetters(events_client)


@pytest.fixture
def failing(graph: SQLiteGraph, views: FriendViews) -> FailingFanOut:
    return FailingFanOut(graph, views)


@asynccontextmanager
async def consuming(
    log: EventLog, fan_out: FanOut, letters: DeadLetters, pace: Pace = SOON
) -> AsyncIterator[Supervisor]:
    """Consumers of all partitions, as one worker process has them."""
    supervisor = Supervisor(fan_out_jobs(log, fan_out, letters, pace))
    supervisor.start()
    try:
        yield supervisor
        assert all(status.restarts == 0 for status in supervisor.status().values())
    finally:
        await supervisor.stop()


async def publish(graph: SQLiteGraph, log: EventLog) -> list[Event]:
    rows = await graph.outbox(10_000)
    events = [event_of(row) for row in rows]
    await log.append(events)
    await graph.mark_published([row.id for row in rows])
    return events


async def drained(log: EventLog) -> bool:
    return await log.depths() == [Depth(0, 0)] * PARTITIONS


async def test_what_is_published_reaches_the_views_and_is_trimmed(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters, events_client: redis.asyncio.Redis
) -> None:
    users = range(1, 31)
    for user in users:
        await graph.set_friendship(user, user % 30 + 1, True)
        await graph.set_friendship(user, (user * 7) % 30 + 1 if (user * 7) % 30 + 1 != user else 99, True)
    for user in users:
        await build_view(graph, views, user)
    async with consuming(log, FanOut(graph, views), letters):
        for user in users:
            for game in range(1, user % 7 + 2):
                await graph.record_play(user, game)
        await publish(graph, log)
        await until(lambda: drained(log))
        for user in users:
            assert await views.counts(user) == await true_counts(graph, user)

        async def trimmed() -> bool:
            return all([await events_client.xlen(stream_key(number)) <= 1 for number in range(PARTITIONS)])

        await until(trimmed)
    assert await letters.count() == 0


async def test_an_event_of_a_worker_that_died_goes_to_another(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters
) -> None:
    await graph.set_friendship(A, B, True)
    await build_view(graph, views, A)
    await graph.record_play(B, 1)
    for event in await publish(graph, log):
        dead = log.partition(event.partition, "died")
        assert await dead.read(10, 1) or await dead.read(10, 1) or await dead.own_pending(10)
    async with consuming(log, FanOut(graph, views), letters):
        await until(lambda: drained(log))
    assert await views.counts(A) == await true_counts(graph, A) != {}


async def test_workers_that_are_slow_keep_their_events_to_themselves(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters
) -> None:
    slow, other = StuckFanOut(graph, views), StuckFanOut(graph, views)
    async with consuming(log, slow, letters):
        await log.append([Event(1, "log", A)])
        await slow.begun.wait()
        async with consuming(log, other, letters):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5 * SOON.claim_idle_ms / 1_000):
                    await other.begun.wait()
            slow.let_go.set()
            await until(lambda: drained(log))
    assert not other.begun.is_set()


async def test_poison_is_set_aside_after_five_failures_with_the_views_it_concerns_evicted(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters, failing: FailingFanOut
) -> None:
    await graph.set_friendship(A, B, True)
    await graph.set_friendship(A, C, True)
    for viewer in (A, B, C):
        await build_view(graph, views, viewer)
    await publish(graph, log)
    async with consuming(log, failing, letters):
        await until(lambda: drained(log))
        failing.errors[B] = a_bug
        await graph.record_play(B, 1)
        await graph.record_play(C, 2)
        await publish(graph, log)
        await until(lambda: drained(log))
        (letter,) = await letters.list()
        assert failing.failures >= 5
        assert (letter.event and letter.event.user_id, letter.attempts) == (B, 5)
        assert letter.error == "ZeroDivisionError: a bug"
        assert await views.token(A) is None
        assert await views.counts(B) == {}
        assert await views.counts(C) == {}

        # Mended: the operator replays it.
        del failing.errors[B]
        await build_view(graph, views, A)
        assert await letters.replay() == 1
        await until(lambda: drained(log))
        assert await letters.count() == 0
        assert await views.counts(A) == await true_counts(graph, A) != {}


async def test_one_poison_event_does_not_hold_up_the_others_of_its_batch(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters, failing: FailingFanOut
) -> None:
    players = [user for user in range(1, 400) if Event(1, "log", user).partition == 0][:40]
    for user in players:
        await graph.set_friendship(A, user, True)
    await graph.mark_published([row.id for row in await graph.outbox(1_000)])
    await build_view(graph, views, A)
    for user in players:
        await graph.record_play(user, 1)
    failing.errors[players[17]] = a_bug
    await publish(graph, log)
    never_set_aside = SOON._replace(attempts=1_000_000)
    async with consuming(log, failing, letters, never_set_aside):
        await until(lambda: failing.failures > 10)

        async def only_poison_left() -> bool:
            return sum(depth.undelivered + depth.pending for depth in await log.depths()) == 1

        await until(only_poison_left)
        assert sum((await views.counts(A) or {}).values()) == 39


async def test_an_event_whose_views_cannot_be_evicted_is_not_set_aside(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters
) -> None:
    class Unmendable(FailingFanOut):
        evictions = 0

        async def evict_concerned(self, event: Event) -> None:
            self.evictions += 1
            if self.evictions < 3:
                raise ZeroDivisionError("another bug")
            await super().evict_concerned(event)

    fan_out = Unmendable(graph, views)
    fan_out.errors[B] = a_bug
    await log.append([Event(1, "log", B)])
    async with consuming(log, fan_out, letters):
        await until(lambda: drained(log))
    assert fan_out.evictions == 3
    assert [letter.attempts for letter in await letters.list()] == [7]


async def test_what_is_no_event_is_set_aside_at_once_and_no_view_is_left(
    graph: SQLiteGraph,
    views: FriendViews,
    log: EventLog,
    letters: DeadLetters,
    events_client: redis.asyncio.Redis,
) -> None:
    await graph.set_friendship(A, B, True)
    for viewer in (A, C):
        await build_view(graph, views, viewer)
    await graph.record_play(B, 1)
    await events_client.xadd(stream_key(4), {"e": b'["?"]'})
    await events_client.xadd(stream_key(4), {"else": b"1"})
    async with consuming(log, FanOut(graph, views), letters):
        await until(lambda: drained(log))
    # It may have been the play: whose views it had to change nobody can say, and none is wrong.
    assert [await views.counts(viewer) for viewer in (A, B, C)] == [None, None, None]
    assert [(letter.data, letter.attempts, letter.partition) for letter in await letters.list()] == [
        (b'["?"]', 1, 4),
        (b"", 1, 4),
    ]


async def test_a_truth_that_is_away_holds_events_and_counts_as_no_failure(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters, failing: FailingFanOut
) -> None:
    await graph.set_friendship(A, B, True)
    await build_view(graph, views, A)
    failing.errors[B] = lambda: TruthUnavailableError("database is locked")
    await graph.record_play(B, 1)
    await publish(graph, log)
    async with consuming(log, failing, letters):
        await until(lambda: failing.failures >= 6)
        assert await letters.count() == 0
        assert not await drained(log)
        failing.errors.clear()
        await until(lambda: drained(log))
    assert await letters.count() == 0
    assert await views.counts(A) == await true_counts(graph, A) != {}


async def test_a_redis_that_is_away_holds_events_and_counts_as_no_failure(graph: SQLiteGraph) -> None:
    folder = Path(tempfile.mkdtemp(prefix="hc-"))
    server = EmbeddedRedis(folder)
    await server.start()
    shared = SharedRedis(connect(server.url, client_name="test"))
    client = connect(server.url, client_name="test-events")
    log, letters, views = EventLog(client), DeadLetters(client), FriendViews(shared)
    try:
        await graph.set_friendship(A, B, True)
        await build_view(graph, views, A)
        await publish(graph, log)
        stuck = StuckFanOut(graph, views)
        async with consuming(log, stuck, letters) as supervisor:
            await stuck.begun.wait()
            await graph.record_play(B, 1)
            await publish(graph, log)
            await server.stop()
            stuck.let_go.set()
            # Long enough for more than five attempts; they cannot be seen from outside.
            await asyncio.sleep(1.0)
            assert all(status.running for status in supervisor.status().values())
            await server.start()
            await until(lambda: drained(log))
            assert await letters.count() == 0
            assert await views.counts(A) == await true_counts(graph, A) != {}
    finally:
        await client.aclose()
        await shared.close()
        await server.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def test_streams_that_were_lost_are_read_again_once_they_are_back(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters, events_client: redis.asyncio.Redis
) -> None:
    await graph.set_friendship(A, B, True)
    async with consuming(log, FanOut(graph, views), letters):
        await publish(graph, log)
        await until(lambda: drained(log))
        await events_client.flushall()
        await build_view(graph, views, A)
        await graph.record_play(B, 1)
        await publish(graph, log)
        await until(lambda: drained(log))
        assert await views.counts(A) == await true_counts(graph, A) != {}


async def test_a_worker_that_is_stopped_finishes_what_it_began_and_is_forgotten(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters, events_client: redis.asyncio.Redis
) -> None:
    await graph.set_friendship(A, B, True)
    await build_view(graph, views, A)
    await publish(graph, log)
    fan_out = StuckFanOut(graph, views)
    async with consuming(log, fan_out, letters) as supervisor:
        await fan_out.begun.wait()
        await graph.record_play(B, 1)
        await publish(graph, log)
        stopping = asyncio.create_task(supervisor.stop())
        await asyncio.sleep(0)
        fan_out.let_go.set()
        await stopping
    pending = [depth.pending for depth in await log.depths()]
    assert pending == [0] * PARTITIONS
    for number in range(PARTITIONS):
        assert await events_client.xinfo_consumers(stream_key(number), "fan-out") == []
    # What was not begun is there for the next worker.
    async with consuming(log, FanOut(graph, views), letters):
        await until(lambda: drained(log))
    assert await views.counts(A) == await true_counts(graph, A) != {}


async def test_a_worker_that_cannot_finish_leaves_its_events_to_the_next(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters
) -> None:
    await graph.set_friendship(A, B, True)
    await build_view(graph, views, A)
    await graph.record_play(B, 1)
    await publish(graph, log)
    stuck = StuckFanOut(graph, views)
    async with consuming(log, stuck, letters, SOON._replace(stop_seconds=0.05)):
        await stuck.begun.wait()
    assert not await drained(log)
    async with consuming(log, FanOut(graph, views), letters):
        await until(lambda: drained(log))
    assert await views.counts(A) == await true_counts(graph, A) != {}


async def test_plays_while_workers_come_and_go_are_all_counted(
    graph: SQLiteGraph, views: FriendViews, log: EventLog, letters: DeadLetters
) -> None:
    for user in range(1, 20):
        await graph.set_friendship(A, user, True)
    await publish(graph, log)
    await build_view(graph, views, A)
    for round_ in range(1, 9):
        async with consuming(log, FanOut(graph, views), letters, SOON._replace(stop_seconds=0.0)):
            for user in range(1, 20):
                await graph.record_play(user, round_)
            await publish(graph, log)
            await asyncio.sleep(0.001 * round_)  # stopped at another point each time
    async with consuming(log, FanOut(graph, views), letters):
        await until(lambda: drained(log))
    assert await views.counts(A) == await true_counts(graph, A)
    assert sum((await views.counts(A) or {}).values()) == 19 * 8
