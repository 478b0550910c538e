"""A Redis that forgets: whatever it lost, every count is exact again once its events have come again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from events.event import PARTITIONS, Event
from events.publisher import Publisher, mark_key
from events.redis_streams import stream_key
from graph.social_graph import GameRow, TruthUnavailableError
from graph.sqlite import SQLiteGraph
from signals.fence import marker_key
from signals.live_sessions import LiveSessions
from signals.markers import Marker
from signals.redis import Argument, Reply, Script, SharedRedis
from signals.shards import SHARDS, shard_of
from tests.storm.redis_snapshot import RedisSnapshot
from tests.workers.rewindable import Process, resident
from tests.workers.views_of_truth import build_view
from workers.outage import is_outage

USERS = range(1, 13)


@pytest.fixture
async def process(graph: SQLiteGraph, shared_redis: SharedRedis, events_client: redis.asyncio.Redis) -> Process:
    """A process that has begun: twelve users in a ring of friends, all with views, everything acknowledged."""
    process = Process(graph, shared_redis, events_client)
    for step in (1, 5):
        await asyncio.gather(*[graph.set_friendship(user, (user + step - 1) % 12 + 1, True) for user in USERS])
    await asyncio.gather(*[graph.record_play(user, user) for user in USERS])
    await process.markers.begin()
    await asyncio.gather(*[build_view(graph, process.views, user) for user in USERS])
    await process.drain()
    assert await process.wrong(USERS) == {}
    return process


async def change(graph: SQLiteGraph, game: int) -> None:
    """Plays of everybody, a friendship more, one less, somebody who hides."""
    await asyncio.gather(
        *[graph.record_play(user, game) for user in USERS],
        graph.set_friendship(1, 7, game % 2 == 0),
        graph.set_friendship(3, 4, game % 2 == 1),
        graph.set_activity_hidden(5, game % 2 == 0),
    )


async def test_nothing_is_told_again_while_nothing_was_forgotten(process: Process, graph: SQLiteGraph) -> None:
    for game in range(20, 25):
        await change(graph, game)
        told = await process.publish()
        assert len(await process.deliver()) == told
        for _ in range(3):
            process.clock.now += 3.0
            await process.relay.check()
        assert await graph.outbox(1) == []
    last = await graph.acknowledged_batch()
    assert set((await process.shard_markers.read()).values()) == {Marker(graph.truth_id, last)}
    assert await process.wrong(USERS) == {}


async def test_acknowledged_events_that_were_lost_come_again(process: Process, graph: SQLiteGraph) -> None:
    snapshot = await RedisSnapshot.take(process.shared)
    await change(graph, 20)
    await process.drain()
    await snapshot.restore(process.shared)
    assert await process.wrong(USERS) != {}, "views are as they were, and nothing is in flight"
    await process.drain()
    assert await resident(process, USERS) == list(USERS), "mended, not built again"
    assert await process.wrong(USERS) == {}


async def test_the_look_itself_finds_a_rewind_that_nobody_saw_as_an_error(process: Process, graph: SQLiteGraph) -> None:
    snapshot = await RedisSnapshot.take(process.shared)
    await change(graph, 20)
    await process.drain()
    await snapshot.restore(process.shared)
    await process.relay.check()  # finds the streams rewound
    await process.publish()
    assert await process.deliver()
    assert await process.wrong(USERS) == {}


async def test_one_shard_that_was_rewound_alone(process: Process, graph: SQLiteGraph) -> None:
    """As a cluster loses it: one node's slots."""
    shard = shard_of(2)
    keys = [key for key in await process.shared.call("KEYS", f"*{{{shard}}}*") if not key.startswith(b"mk:{e")]
    dumps = {key: await process.shared.call("DUMP", key) for key in keys}
    await change(graph, 20)
    await process.drain()
    before = (await process.shard_markers.read())[shard]
    for key in await process.shared.call("KEYS", f"*{{{shard}}}*"):
        await process.shared.call("DEL", key)
    for key, dump in dumps.items():
        await process.shared.call("RESTORE", key, 0, dump)
    assert (await process.shard_markers.read())[shard] < before
    assert 2 in await process.wrong(USERS)
    await process.relay.check()  # lower than a look ago: no waiting
    await process.publish()
    await process.deliver()
    assert await process.wrong(USERS) == {}


async def test_a_rewind_between_an_update_and_its_stamp_that_left_every_marker_as_it_was(
    process: Process, graph: SQLiteGraph
) -> None:
    await graph.record_play(2, 30)
    await process.publish()
    snapshot = await RedisSnapshot.take(process.shared)  # the event is in the log, nothing is applied
    markers = await process.shard_markers.read()
    batches = [deliveries for partition in process.partitions if (deliveries := await partition.read(10, 1))]
    events = [Event.decode(delivery.data) for deliveries in batches for delivery in deliveries]
    assert [event.user_id for event in events] == [2]
    await process.fan_out.handle(events)
    await snapshot.restore(process.shared)
    await process.acknowledgements.acknowledge([event.id for event in events])
    await process.acknowledgements.close()
    for partition, deliveries in zip(process.partitions, batches, strict=False):
        await partition.acknowledge(deliveries)
    assert await graph.outbox(1) == []
    after = await process.shard_markers.read()
    viewers = (await graph.friends([2]))[2]
    assert {shard_of(viewer) for viewer in viewers} == {
        shard for shard, marker in after.items() if marker == markers[shard]
    }, "settled in no shard that lost an update, and in every other"
    assert await process.wrong(USERS) != {}
    await process.drain()
    assert await process.wrong(USERS) == {}


async def test_a_view_that_was_found_absent_and_is_there_again(process: Process, graph: SQLiteGraph) -> None:
    """What was only read counts too: an event that found no view leaves nothing else in Redis."""
    snapshot = await RedisSnapshot.take(process.shared)
    await process.views.evict(list(USERS))
    await graph.set_friendship(1, 2, False)
    await graph.import_rows("plays", [])
    await process.publish()
    (event, *_) = [e for partition in process.partitions for e in await partition.read(10, 1)]
    told = Event.decode(event.data)
    await process.fan_out.handle([told])
    await snapshot.restore(process.shared)
    await process.acknowledgements.acknowledge([told.id])
    await process.acknowledgements.close()
    assert await process.wrong([1, 2]) != {}
    await process.drain()
    assert await process.wrong(USERS) == {}


async def test_streams_that_lost_what_was_never_acknowledged(process: Process, graph: SQLiteGraph) -> None:
    await change(graph, 20)
    await process.publish()
    for number in range(PARTITIONS):
        await process.shared.call("DEL", stream_key(number), mark_key(number))
    assert await process.deliver() == []
    await process.drain()
    assert await process.wrong(USERS) == {}


async def test_everything_lost(process: Process, graph: SQLiteGraph) -> None:
    await change(graph, 20)
    await process.publish()
    await process.shared.call("FLUSHALL")
    await process.drain()
    assert await resident(process, USERS) == []
    for user in USERS:
        await build_view(graph, process.views, user)
    await change(graph, 21)
    await process.drain()
    assert await process.wrong(USERS) == {}
    assert await resident(process, USERS) == list(USERS)


async def test_a_marker_that_is_missing_empties_its_shard_alone(process: Process, graph: SQLiteGraph) -> None:
    sessions = LiveSessions(process.shared, 60)
    for user in USERS:
        await sessions.beat(user, "s", 1)
    lost = shard_of(3)
    await process.shared.call("DEL", marker_key(lost))
    await process.relay.check()
    assert await resident(process, USERS) == [user for user in USERS if shard_of(user) != lost]
    assert await process.shared.call("EXISTS", f"lb:{{{lost}}}", f"lg:{{{lost}}}", f"lc:{{{lost}}}") == 0
    assert await process.shared.call(
        "EXISTS", *[f"lb:{{{shard_of(user)}}}" for user in USERS if shard_of(user) != lost]
    )
    assert (await process.shard_markers.read())[lost] == Marker(graph.truth_id, await graph.acknowledged_batch())


async def test_a_marker_older_than_what_the_outbox_keeps_empties_its_shard(
    shared_redis: SharedRedis, events_client: redis.asyncio.Redis, tmp_path: Path
) -> None:
    now = 1_750_000_000.0
    graph = SQLiteGraph(tmp_path / "kept.sqlite", clock=lambda: now)
    await graph.open()
    await graph.save_games([GameRow(game, None) for game in range(1, 41)])
    process = Process(graph, shared_redis, events_client)
    await process.markers.begin()
    for user in USERS:
        await graph.set_friendship(user, user % 12 + 1, True)
    for user in USERS:
        await build_view(graph, process.views, user)
    await process.drain()
    snapshot = await RedisSnapshot.take(process.shared)
    await change(graph, 20)
    await process.drain()
    now += 599
    await graph.acknowledge([])
    await snapshot.restore(process.shared)
    await process.drain()
    assert await resident(process, USERS) == list(USERS), "kept: told again"
    assert await process.wrong(USERS) == {}

    snapshot = await RedisSnapshot.take(process.shared)
    await change(graph, 21)
    await process.drain()
    now += 601
    await graph.acknowledge([])
    await snapshot.restore(process.shared)
    await process.drain()
    assert await resident(process, USERS) == [], "too old: emptied"
    await build_view(graph, process.views, 1)
    await change(graph, 22)
    await process.drain()
    assert await process.wrong(USERS) == {}
    await graph.close()


@pytest.fixture
async def another(tmp_path: Path) -> AsyncIterator[SQLiteGraph]:
    """Another truth with the same users and games, and other plays."""
    graph = SQLiteGraph(tmp_path / "another.sqlite")
    await graph.open()
    await graph.save_games([GameRow(game, None) for game in range(100, 0, -1)])
    for user in USERS:
        await graph.set_friendship(user, user % 12 + 1, True)
        await graph.record_play(user, 90)
    yield graph
    await graph.close()


async def test_another_truth_empties_what_is_derived_and_keeps_the_first_one_out(
    process: Process, graph: SQLiteGraph, another: SQLiteGraph, events_client: redis.asyncio.Redis
) -> None:
    await change(graph, 20)
    await process.publish()  # events of the first truth are in the streams
    await process.letters.set_aside(0, (await process.partitions[0].read(1, 1))[0], "for once", 1)
    await LiveSessions(process.shared, 60).beat(1, "s", 1)
    second = Process(another, process.shared, events_client, name="second")
    await second.markers.begin()
    assert await resident(second, USERS) == []
    assert await second.letters.count() == 0
    left = {key for key in await process.shared.call("KEYS", "*") if not key.startswith((b"mk:", b"lease:", b"fence:"))}
    assert left == set(), left
    await second.markers.begin()  # and once is enough
    for user in USERS:
        await build_view(another, second.views, user)

    # Whoever is still of the first truth cannot write to what is of the second.
    with pytest.raises(ResponseError, match="OTHERTRUTH") as refused:
        await process.views.claim(1, "nonce")
    assert is_outage(refused.value)
    with pytest.raises(ResponseError, match="OTHERTRUTH"):
        await process.fan_out.handle([Event(1, "play", 2, 0, 2, 20)])
    await second.drain()
    assert await second.wrong(USERS) == {}
    assert await resident(second, USERS) == list(USERS)


async def test_events_of_another_truth_in_a_stream_are_dropped(
    process: Process, graph: SQLiteGraph, events_client: redis.asyncio.Redis
) -> None:
    """Their users and numbers are others: here they would be counted as something that never happened."""
    publisher = Publisher(events_client, lambda: "another")
    await publisher.adopt()
    assert await publisher.append([Event(1, "play", 1, 0, 2, 39)])  # the second entry of a log that has one
    assert len(await process.deliver()) == 1
    assert await process.wrong(USERS) == {}
    assert await process.deliver() == []
    await process.drain()
    await graph.record_play(1, 38)
    await process.drain()
    assert await process.wrong(USERS) == {}


async def test_an_older_copy_of_the_same_truth_is_noticed(process: Process, graph: SQLiteGraph) -> None:
    for _ in range(5):
        await graph.acknowledge([])
    await process.shared.call("HSET", marker_key(7), "batch", await graph.acknowledged_batch() + 1)
    await process.markers.begin()
    assert await resident(process, USERS) == []
    assert set((await process.shard_markers.read()).values()) == {
        Marker(graph.truth_id, await graph.acknowledged_batch())
    }


class LosingRedis(SharedRedis):
    """Runs the scripts of one name and loses the reply, once each."""

    def __init__(self, shared: SharedRedis, name: str) -> None:
        super().__init__(shared.client)
        self.name = name
        self.lost = 0

    async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
        reply = await super().run(script, keys, args)
        if script.name == self.name:
            if self.lost % 2 == 0:
                self.lost += 1
                raise RedisConnectionError("reply lost")
            self.lost += 1
        return reply


@pytest.mark.parametrize("script", ["settle", "move_marker"])
async def test_a_lost_reply_of_a_marker_script(
    process: Process, graph: SQLiteGraph, events_client: redis.asyncio.Redis, script: str
) -> None:
    unlucky = Process(graph, LosingRedis(process.shared, script), events_client, name="unlucky")
    snapshot = await RedisSnapshot.take(process.shared)
    await change(graph, 20)
    await process.drain()
    await snapshot.restore(process.shared)
    for _ in range(200):
        try:
            await unlucky.drain()
        except RedisConnectionError:
            continue
        break
    assert isinstance(unlucky.shared, LosingRedis)
    assert unlucky.shared.lost > 0
    assert await process.wrong(USERS) == {}
    assert await unlucky.settled()


async def test_two_relays_at_once_lose_nothing(
    process: Process, graph: SQLiteGraph, events_client: redis.asyncio.Redis
) -> None:
    second = Process(graph, process.shared, events_client, name="second")
    snapshot = await RedisSnapshot.take(process.shared)
    for game in range(20, 26):
        await change(graph, game)
        if game % 3 == 0:
            await snapshot.restore(process.shared)
        await asyncio.gather(process.relay.publish(), second.relay.publish(), process.relay.check())
        await asyncio.gather(second.deliver(), second.relay.check())
    await process.drain()
    assert await process.wrong(USERS) == {}
    assert await resident(process, USERS) == list(USERS)


async def test_a_relay_whose_append_was_lost_before_it_marked_the_rows(
    process: Process, graph: SQLiteGraph, events_client: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stalls between the append and the mark; meanwhile Redis forgets the append and another relay takes over."""
    second = Process(graph, process.shared, events_client, name="second")
    snapshot = await RedisSnapshot.take(process.shared)
    await change(graph, 20)
    mark = graph.mark_published

    async def stall(row_ids: list[int]) -> None:
        await snapshot.restore(process.shared)
        await second.markers.take_over()
        await mark(row_ids)

    monkeypatch.setattr(graph, "mark_published", stall)
    await process.relay.publish()
    monkeypatch.undo()
    assert len(await graph.outbox(100)) >= len(USERS)
    await second.drain()
    assert await process.wrong(USERS) == {}


async def test_a_leader_that_dies_between_taking_back_and_moving_the_markers(
    process: Process, graph: SQLiteGraph, events_client: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = await RedisSnapshot.take(process.shared)
    await change(graph, 20)
    await process.drain()
    await snapshot.restore(process.shared)

    async def die(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(process.shard_markers, "move", die)
    with pytest.raises(ZeroDivisionError):
        await process.markers.take_over()
    second = Process(graph, process.shared, events_client, name="second")
    await second.drain()
    assert await second.wrong(USERS) == {}


async def test_a_worker_that_dies_between_its_stamp_and_the_settling(
    process: Process, graph: SQLiteGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object) -> list[int]:
        raise ZeroDivisionError

    await change(graph, 20)
    await process.publish()
    monkeypatch.setattr(process.shard_markers, "settle", die)
    await process.deliver()
    monkeypatch.undo()
    assert await process.wrong(USERS) == {}
    assert not await process.settled()
    await process.relay.check()
    process.clock.now += 1.9
    await process.relay.check()
    assert await graph.outbox(1) == [], "it may come yet"
    process.clock.now += 0.2
    await process.relay.check()
    assert await graph.outbox(1) != []
    await process.drain()
    assert await process.settled()
    assert await process.wrong(USERS) == {}


async def test_markers_of_all_shards_are_read_in_one_pipeline(process: Process) -> None:
    assert len(await process.shard_markers.read()) == SHARDS
    flushes = process.shared._flush_count  # what is to be shown
    await process.shard_markers.read()
    assert process.shared._flush_count == flushes + 1


async def test_a_failed_stamp_leaves_its_runs_to_the_next_one(
    process: Process, graph: SQLiteGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    await change(graph, 20)
    await process.publish()
    acknowledge = graph.acknowledge
    calls = 0

    async def fail_once(row_ids: list[int]) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise TruthUnavailableError("the disk is full")
        return await acknowledge(row_ids)

    monkeypatch.setattr(graph, "acknowledge", fail_once)
    await process.deliver()
    assert calls > 1
    assert await process.settled()
