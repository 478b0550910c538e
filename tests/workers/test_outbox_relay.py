"""The relay: every row of the outbox is told, once in normal running, and never lost."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from events.event import PARTITIONS, Event
from events.redis_streams import EventLog, stream_key
from graph.social_graph import PlayRow, TruthUnavailableError
from graph.sqlite import SQLiteGraph
from signals.embedded_redis import EmbeddedRedis
from signals.redis import SharedRedis, connect
from tests.waiting import until
from workers.lease import Lease
from workers.outbox_relay import OutboxRelay
from workers.supervisor import Supervisor

USERS = range(1, 61)


@pytest.fixture
def log(events_client: redis.asyncio.Redis) -> EventLog:
    return EventLog(events_client)


def lease(shared_redis: SharedRedis) -> Lease:
    return Lease(shared_redis, "relay", ttl_seconds=3)


def make_relay(graph: SQLiteGraph, log: EventLog, shared_redis: SharedRedis) -> OutboxRelay:
    return OutboxRelay(graph, log, lease(shared_redis), poll_seconds=0.02, renew_seconds=0.05)


@asynccontextmanager
async def relaying(*relays: OutboxRelay) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor({f"relay-{i}": relay.run for i, relay in enumerate(relays)})
    supervisor.start()
    try:
        yield supervisor
        assert all(status.restarts == 0 for status in supervisor.status().values())
    finally:
        await supervisor.stop()


async def published(client: redis.asyncio.Redis) -> list[Event]:
    """Everything in the log."""
    events: list[Event] = []
    for number in range(PARTITIONS):
        entries: Any = await client.xrange(stream_key(number))
        events += [Event.decode(fields[b"e"]) for _, fields in entries]
    return events


async def outbox_empty(graph: SQLiteGraph) -> bool:
    return (await graph.totals()).outbox == 0


async def test_everything_written_is_told_once_and_in_the_order_of_its_user(
    graph: SQLiteGraph, log: EventLog, shared_redis: SharedRedis, events_client: redis.asyncio.Redis
) -> None:
    async with relaying(make_relay(graph, log, shared_redis)):
        for game in range(1, 6):
            await asyncio.gather(*[graph.record_play(user, game) for user in USERS])
        await graph.set_friendship(9, 3, True)
        await until(lambda: outbox_empty(graph))
    events = await published(events_client)
    assert len(events) == len({event.id for event in events}) == 5 * len(USERS) + 1
    for user in USERS:
        assert [e.ordinal for e in events if e.kind == "play" and e.user_id == user] == [1, 2, 3, 4, 5]
    assert [(e.user_id, e.other_id) for e in events if e.kind == "edge"] == [(3, 9)]


async def test_what_was_written_before_the_start_is_told(
    graph: SQLiteGraph, log: EventLog, shared_redis: SharedRedis, events_client: redis.asyncio.Redis
) -> None:
    await graph.import_rows("plays", [PlayRow(user, game) for user in range(1, 1_301) for game in (1, 2)])
    async with relaying(make_relay(graph, log, shared_redis)):
        await until(lambda: outbox_empty(graph))
    events = await published(events_client)
    assert sorted(event.user_id for event in events) == list(range(1, 1_301))
    assert {event.kind for event in events} == {"log"}


async def test_a_commit_of_this_process_wakes_the_relay(
    graph: SQLiteGraph, log: EventLog, shared_redis: SharedRedis, events_client: redis.asyncio.Redis
) -> None:
    relay = OutboxRelay(graph, log, lease(shared_redis), poll_seconds=3_600)
    async with relaying(relay):
        for i in range(1, 4):
            await graph.record_play(i, 1)
            await until(lambda: outbox_empty(graph))
    assert len(await published(events_client)) == 3


async def test_a_commit_of_another_process_is_found_by_looking(
    graph: SQLiteGraph,
    log: EventLog,
    shared_redis: SharedRedis,
    events_client: redis.asyncio.Redis,
    tmp_path: Path,
) -> None:
    other = SQLiteGraph(tmp_path / "truth.sqlite")
    await other.open()
    try:
        async with relaying(make_relay(graph, log, shared_redis)):
            await until(lambda: outbox_empty(graph))
            await other.record_play(7, 1)
            await until(lambda: outbox_empty(graph))
    finally:
        await other.close()
    assert [event.user_id for event in await published(events_client)] == [7]


async def test_of_two_relays_one_works_and_the_other_takes_over(
    graph: SQLiteGraph, log: EventLog, shared_redis: SharedRedis, events_client: redis.asyncio.Redis
) -> None:
    first, second = make_relay(graph, log, shared_redis), make_relay(graph, log, shared_redis)
    async with relaying(second):
        async with relaying(first):
            for game in range(1, 4):
                await asyncio.gather(*[graph.record_play(user, game) for user in USERS])
            await until(lambda: outbox_empty(graph))
        events = await published(events_client)
        assert len(events) == len({event.id for event in events}) == 3 * len(USERS)
        await graph.record_play(1, 9)
        await until(lambda: outbox_empty(graph))
    async with relaying(first):
        await graph.record_play(1, 10)
        await until(lambda: outbox_empty(graph))
    assert len(await published(events_client)) == 3 * len(USERS) + 2


async def test_two_relays_that_both_believe_to_lead_lose_nothing(
    graph: SQLiteGraph, log: EventLog, shared_redis: SharedRedis, events_client: redis.asyncio.Redis
) -> None:
    first, second = make_relay(graph, log, shared_redis), make_relay(graph, log, shared_redis)
    for game in range(1, 11):
        await asyncio.gather(*[graph.record_play(user, game) for user in USERS])
        await asyncio.gather(first.publish(), second.publish())
    while await first.publish():
        pass
    found = {(event.user_id, event.ordinal) for event in await published(events_client)}
    assert found == {(user, ordinal) for user in USERS for ordinal in range(1, 11)}


async def test_a_crash_before_rows_are_marked_tells_them_twice_and_a_failed_append_marks_nothing(
    graph: SQLiteGraph,
    log: EventLog,
    shared_redis: SharedRedis,
    events_client: redis.asyncio.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class CrashingLog(EventLog):
        async def append(self, events: Sequence[Event]) -> None:
            await super().append(events[:1])
            raise ZeroDivisionError

    async def crash(*_: object) -> None:
        raise ZeroDivisionError

    await graph.record_play(1, 1)
    await graph.record_play(2, 1)
    with pytest.raises(ZeroDivisionError):
        await make_relay(graph, CrashingLog(events_client), shared_redis).publish()
    assert (await graph.totals()).outbox == 2
    relay = make_relay(graph, log, shared_redis)
    with monkeypatch.context() as patch:
        patch.setattr(graph, "mark_published", crash)
        with pytest.raises(ZeroDivisionError):
            await relay.publish()
    assert await relay.publish() == 2
    assert await relay.publish() == 0
    assert sorted(event.user_id for event in await published(events_client)) == [1, 1, 1, 2, 2]


async def test_a_truth_that_is_away_holds_the_relay(
    graph: SQLiteGraph,
    log: EventLog,
    shared_redis: SharedRedis,
    events_client: redis.asyncio.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0

    async def away(*_: object) -> None:
        nonlocal asked
        asked += 1
        raise TruthUnavailableError("disk is full")

    await graph.record_play(1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(graph, "outbox", away)
        async with relaying(make_relay(graph, log, shared_redis)):
            await until(lambda: asked >= 4)
            patch.undo()
            await until(lambda: outbox_empty(graph))
    assert len(await published(events_client)) == 1


async def test_a_redis_that_is_away_holds_the_relay_and_nothing_is_lost(graph: SQLiteGraph) -> None:
    folder = Path(tempfile.mkdtemp(prefix="hc-"))
    server = EmbeddedRedis(folder)
    await server.start()
    shared = SharedRedis(connect(server.url, client_name="test"))
    client = connect(server.url, client_name="test-events")
    try:
        async with relaying(make_relay(graph, EventLog(client), shared)) as supervisor:
            await graph.record_play(1, 1)
            await until(lambda: outbox_empty(graph))
            await server.stop()
            await asyncio.gather(*[graph.record_play(user, 2) for user in USERS])
            assert not await outbox_empty(graph)
            await server.start()
            await until(lambda: outbox_empty(graph))
            assert supervisor.status()["relay-0"].running
        found = {(event.user_id, event.ordinal) for event in await published(client)}
        assert {(user, 1) for user in USERS if user != 1} | {(1, 1), (1, 2)} == found
    finally:
        await client.aclose()
        await shared.close()
        await server.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_relay_that_is_stopped_marks_what_it_has_written(
    graph: SQLiteGraph, shared_redis: SharedRedis, events_client: redis.asyncio.Redis
) -> None:
    class SlowLog(EventLog):
        appending = asyncio.Event()
        go_on = asyncio.Event()

        async def append(self, events: Sequence[Event]) -> None:
            await super().append(events)
            self.appending.set()
            await self.go_on.wait()

    slow = SlowLog(events_client)
    async with relaying(make_relay(graph, slow, shared_redis)) as supervisor:
        await graph.record_play(1, 1)
        await slow.appending.wait()
        stopping = asyncio.create_task(supervisor.stop())
        await asyncio.sleep(0)
        slow.go_on.set()
        await stopping
    assert await outbox_empty(graph)
    assert len(await published(events_client)) == 1
    assert await events_client.exists(lease(shared_redis).key) == 0
