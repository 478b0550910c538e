"""Reconcile: finds every kind of drift and mends it, and never takes an event in flight for one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import redis.asyncio

from events.dead_letters import DeadLetters
from events.event import Event
from events.event_progress import EventProgress
from events.redis_streams import EventLog
from graph.social_graph import GameRow
from graph.sqlite import SQLiteGraph
from graph.visibility import CursorState
from signals import view_keys
from signals.redis import SharedRedis
from signals.view import ROW, Row
from signals.views import FriendViews
from tests.waiting import until
from tests.workers.views_of_truth import build_view, true_counts
from workers.fan_out import FanOut
from workers.fan_out_consumer import Pace, fan_out_jobs
from workers.in_flight import InFlight
from workers.lease import Lease
from workers.outbox_relay import OutboxRelay, event_of
from workers.reconcile import Reconcile, Report
from workers.supervisor import Supervisor
from workers.view_comparison import Kind

A, B, C, D = 101, 102, 103, 104
PACE = Pace(block_ms=50, claim_idle_ms=500, tidy_seconds=1.0)


class HeldFanOut(FanOut):
    """Handles nothing while it is held."""

    def __init__(self, graph: SQLiteGraph, views: FriendViews) -> None:
        super().__init__(graph, views)
        self.begun = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()

    async def handle(self, events: Sequence[Event]) -> None:
        self.begun.set()
        await self.free.wait()
        await super().handle(events)


@pytest.fixture
def fan_out(graph: SQLiteGraph, views: FriendViews) -> HeldFanOut:
    return HeldFanOut(graph, views)


@pytest.fixture
def workers(
    graph: SQLiteGraph, fan_out: HeldFanOut, shared_redis: SharedRedis, events_client: redis.asyncio.Redis
) -> Callable[[], AbstractAsyncContextManager[None]]:
    """Relay and consumers, for as long as the context is open."""
    return lambda: running(graph, fan_out, shared_redis, events_client)


@asynccontextmanager
async def running(
    graph: SQLiteGraph, fan_out: HeldFanOut, shared: SharedRedis, client: redis.asyncio.Redis
) -> AsyncIterator[None]:
    """Relay and consumers, for as long as the context is open."""
    events = EventLog(client)
    relay = OutboxRelay(graph, events, Lease(shared, "outbox-relay", 2.0), poll_seconds=0.02)
    supervisor = Supervisor({"relay": relay.run, **fan_out_jobs(events, fan_out, DeadLetters(client), PACE)})
    supervisor.start()
    try:
        yield
    finally:
        fan_out.free.set()
        await supervisor.stop()


@pytest.fixture
async def world(graph: SQLiteGraph, views: FriendViews) -> None:
    """A's view: B played 1, 2, 3, C played 2; D parted from A after playing 3. Nothing is in flight."""
    for friend in (B, C, D):
        await graph.set_friendship(A, friend, True)
    for user, game in ((B, 1), (B, 2), (B, 3), (C, 2), (D, 3)):
        await graph.record_play(user, game)
    await build_view(graph, views, A)
    await build_view(graph, views, B)
    await graph.set_friendship(A, D, False)
    await handle_all(graph, views)


async def handle_all(graph: SQLiteGraph, views: FriendViews) -> None:
    """Handle what the truth has to tell, without a log."""
    fan_out = FanOut(graph, views)
    while rows := await graph.outbox(500):
        await fan_out.handle([event_of(row) for row in rows])
        await graph.mark_published([row.id for row in rows])


def reconcile(
    graph: SQLiteGraph,
    views: FriendViews,
    client: redis.asyncio.Redis,
    *,
    repair: bool = False,
    patience_seconds: float = 20.0,
) -> Reconcile:
    in_flight = InFlight(graph, EventProgress(client), patience_seconds=patience_seconds)
    return Reconcile(graph, views, in_flight, repair=repair)


async def set_row(redis: SharedRedis, viewer: int, owner: int, row: Row) -> None:
    key = f"ec:{view_keys.tag(viewer)}"
    await redis.call("HSET", key, owner, ROW.pack(row.version, row.cursor, row.state))


async def row_of(views: FriendViews, viewer: int, owner: int) -> Row:
    view = await views.view(viewer)
    assert view is not None
    return view.rows[owner]


@pytest.mark.usefixtures("world")
async def test_nothing_is_wrong_with_what_the_scripts_made(
    graph: SQLiteGraph, views: FriendViews, events_client: redis.asyncio.Redis
) -> None:
    seen: list[int] = []
    report = await reconcile(graph, views, events_client).all(lambda so_far: seen.append(so_far.users))
    # A counts games 1, 2, 3 and has rows of B, C and D; B sees A alone, who played nothing.
    assert report == Report(users=2, pairs=7)
    assert seen == [2]


async def wrong_count(redis: SharedRedis, _: FriendViews) -> None:
    await redis.call("HINCRBY", f"fp:{view_keys.tag(A)}:2", 0, 1)


async def lost_count(redis: SharedRedis, _: FriendViews) -> None:
    await redis.call("DEL", f"fp:{view_keys.tag(A)}:1")


async def count_of_a_game_nobody_played(redis: SharedRedis, _: FriendViews) -> None:
    await redis.call("HSET", f"fp:{view_keys.tag(A)}:9", 0, 1)


async def count_below_nothing(redis: SharedRedis, _: FriendViews) -> None:
    await redis.call("HSET", f"fp:{view_keys.tag(A)}:9", 0, -1)


async def cursor_past_its_log(redis: SharedRedis, views: FriendViews) -> None:
    await set_row(redis, A, C, (await row_of(views, A, C))._replace(cursor=2))


async def cursor_set_back(redis: SharedRedis, views: FriendViews) -> None:
    await set_row(redis, A, C, (await row_of(views, A, C))._replace(cursor=0))


async def cursor_behind_and_counts_with_it(redis: SharedRedis, views: FriendViews) -> None:
    await set_row(redis, A, B, (await row_of(views, A, B))._replace(cursor=2))
    await redis.call("HDEL", f"fp:{view_keys.tag(A)}:3", 0)


async def version_ahead(redis: SharedRedis, views: FriendViews) -> None:
    row = await row_of(views, A, B)
    await set_row(redis, A, B, row._replace(version=row.version + 1))


async def version_behind(redis: SharedRedis, views: FriendViews) -> None:
    row = await row_of(views, A, B)
    await set_row(redis, A, B, row._replace(version=row.version - 1))


async def still_on(redis: SharedRedis, views: FriendViews) -> None:
    """D's parting never reached the view, which is sound in itself."""
    row = await row_of(views, A, D)
    await set_row(redis, A, D, Row(row.version - 1, CursorState.PUSH, 1))
    await redis.call("HINCRBY", f"fp:{view_keys.tag(A)}:3", 0, 1)


async def off_at_the_version_of_on(redis: SharedRedis, views: FriendViews) -> None:
    row = await row_of(views, A, C)
    await set_row(redis, A, C, Row(row.version, CursorState.OFF, 0))
    await redis.call("HINCRBY", f"fp:{view_keys.tag(A)}:2", 0, -1)


async def friend_unknown(redis: SharedRedis, _: FriendViews) -> None:
    await redis.call("HDEL", f"ec:{view_keys.tag(A)}", C)
    await redis.call("HINCRBY", f"fp:{view_keys.tag(A)}:2", 0, -1)


async def pulled_and_pushed(redis: SharedRedis, _: FriendViews) -> None:
    await redis.call("SADD", f"pl:{view_keys.tag(A)}", B)


PLANTED: dict[Callable[[SharedRedis, FriendViews], Awaitable[None]], list[tuple[Kind, int, int, int, int]]] = {
    wrong_count: [(Kind.COUNT, 0, 2, 3, 2)],
    lost_count: [(Kind.COUNT, 0, 1, 0, 1)],
    count_of_a_game_nobody_played: [(Kind.COUNT, 0, 9, 1, 0)],
    count_below_nothing: [(Kind.COUNT, 0, 9, -1, 0)],
    cursor_past_its_log: [(Kind.PAST_LOG_END, C, 0, 2, 1)],
    cursor_set_back: [(Kind.COUNT, 0, 2, 2, 1)],
    cursor_behind_and_counts_with_it: [(Kind.BEHIND, B, 0, 2, 3)],
    version_ahead: [(Kind.AHEAD, B, 0, 2, 1)],
    version_behind: [(Kind.VERSION, B, 0, 0, 1)],
    still_on: [(Kind.VERSION, D, 0, 1, 2)],
    off_at_the_version_of_on: [(Kind.VERSION, C, 0, 1, 1)],
    friend_unknown: [(Kind.MISSING, C, 0, 0, 1)],
    pulled_and_pushed: [(Kind.PULL_SET, B, 0, 1, 0)],
}


def test_every_kind_is_planted() -> None:
    assert {kind for found in PLANTED.values() for kind, *_ in found} == set(Kind)


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("plant", PLANTED)
async def test_planted_drift_is_found_and_mended(
    graph: SQLiteGraph,
    views: FriendViews,
    shared_redis: SharedRedis,
    events_client: redis.asyncio.Redis,
    plant: Callable[[SharedRedis, FriendViews], Awaitable[None]],
) -> None:
    await plant(shared_redis, views)
    report = await reconcile(graph, views, events_client).all()
    assert report.drift == {A: PLANTED[plant]}
    assert (report.in_flight, report.repaired) == ([], 0)
    assert await views.token(A) is not None

    repaired = await reconcile(graph, views, events_client, repair=True).all()
    assert (repaired.drift, repaired.repaired) == (report.drift, 1)
    assert await views.token(A) is None
    assert await views.token(B) is not None
    await build_view(graph, views, A)
    assert await views.counts(A) == await true_counts(graph, A)
    assert (await reconcile(graph, views, events_client).all()).drift == {}


@pytest.mark.usefixtures("world")
async def test_one_user_alone(graph: SQLiteGraph, views: FriendViews, events_client: redis.asyncio.Redis) -> None:
    one = reconcile(graph, views, events_client)
    assert (await one.views([A])).users == 1
    assert await one.views([999]) == Report(without_view=1)
    await views.claim(C, "nonce")
    assert await one.views([C]) == Report(without_view=1)


@pytest.mark.usefixtures("world")
async def test_an_event_that_a_worker_holds_is_no_drift(
    graph: SQLiteGraph,
    views: FriendViews,
    events_client: redis.asyncio.Redis,
    fan_out: HeldFanOut,
    workers: Callable[[], AbstractAsyncContextManager[None]],
) -> None:
    fan_out.free.clear()
    async with workers():
        await graph.record_play(C, 7)
        await graph.set_friendship(A, D, True)
        await fan_out.begun.wait()
        impatient = await reconcile(graph, views, events_client, patience_seconds=0, repair=True).all()
        assert (impatient.drift, impatient.in_flight, impatient.repaired) == ({}, [A], 0)

        looking = asyncio.create_task(reconcile(graph, views, events_client).all())
        progress = EventProgress(events_client)
        await until(lambda: _pending(progress))
        assert not looking.done()
        fan_out.free.set()
        report = await looking
        assert (report.drift, report.in_flight, report.users) == ({}, [], 2)
    assert await views.counts(A) == await true_counts(graph, A)


async def _pending(progress: EventProgress) -> bool:
    return any(waiting.pending for waiting in await progress.waiting(await progress.ends()))


@pytest.mark.usefixtures("world")
async def test_what_nobody_publishes_is_in_flight(
    graph: SQLiteGraph, views: FriendViews, events_client: redis.asyncio.Redis
) -> None:
    await graph.record_play(C, 7)
    report = await reconcile(graph, views, events_client, patience_seconds=0).all()
    assert (report.drift, report.in_flight) == ({}, [A])


@pytest.mark.usefixtures("world")
async def test_an_event_that_was_lost_is_drift_once_the_others_are_handled(
    graph: SQLiteGraph,
    views: FriendViews,
    events_client: redis.asyncio.Redis,
    workers: Callable[[], AbstractAsyncContextManager[None]],
) -> None:
    await graph.record_play(C, 7)
    await graph.mark_published([row.id for row in await graph.outbox(10)])  # and nobody did
    async with workers():
        for game in range(10, 20):
            await graph.record_play(B, game)
        report = await reconcile(graph, views, events_client).all()
    assert report.drift == {A: [(Kind.BEHIND, C, 0, 1, 2)]}


@pytest.fixture
async def crossing(tmp_path: Path) -> AsyncIterator[SQLiteGraph]:
    """A truth in which five friends are already too many to push to."""
    graph = SQLiteGraph(tmp_path / "crossing.sqlite", fanout_max_friends=4)
    await graph.open()
    await graph.save_games([GameRow(game_id, None) for game_id in range(1, 41)])
    yield graph
    await graph.close()


async def test_no_drift_is_seen_while_the_world_moves(
    crossing: SQLiteGraph,
    views: FriendViews,
    events_client: redis.asyncio.Redis,
    shared_redis: SharedRedis,
) -> None:
    graph = crossing
    fan_out = HeldFanOut(graph, views)
    users = list(range(101, 113))
    choose = random.Random(4)
    done = asyncio.Event()

    async def move() -> None:
        while not done.is_set():
            one, other = choose.sample(users, 2)
            match choose.randrange(6):
                case 0 | 1:
                    await graph.set_friendship(one, other, choose.random() < 0.6)
                case 2:
                    await graph.block(one, other, choose.random() < 0.5)
                case 3:
                    await graph.set_activity_hidden(one, choose.random() < 0.5)
                case _:
                    await graph.record_play(one, choose.randint(1, 40))
            await asyncio.sleep(0)

    async def build() -> None:
        while not done.is_set():
            viewer = choose.choice(users)
            if choose.random() < 0.2:
                await views.evict([viewer])
            elif await views.token(viewer) is None:
                await build_view(graph, views, viewer)
            await asyncio.sleep(0)

    async with running(graph, fan_out, shared_redis, events_client):
        moving = [asyncio.create_task(move()) for _ in range(3)] + [asyncio.create_task(build())]
        compared = 0
        try:
            for _ in range(6):
                report = await reconcile(graph, views, events_client).all()
                assert (report.drift, report.in_flight) == ({}, [])
                compared += report.users
        finally:
            done.set()
            await asyncio.gather(*moving)
    assert compared > 20
    assert await graph.pulled_logs()
