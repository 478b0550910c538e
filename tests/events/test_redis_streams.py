"""The event log: at least once, to one consumer of the group, nothing trimmed that may still be needed."""

from __future__ import annotations

from typing import Any

import redis.asyncio

from events.event import PARTITIONS, Event
from events.redis_streams import Delivery, Depth, EventLog, Partition, stream_key

USER = 7
NUMBER = Event(1, "log", USER).partition


def plays(count: int, user_id: int = USER) -> list[Event]:
    return [Event(i, "play", user_id, 0, i, i) for i in range(1, count + 1)]


def events_of(deliveries: list[Delivery]) -> list[Event]:
    return [Event.decode(delivery.data) for delivery in deliveries]


async def read(partition: Partition, limit: int = 100) -> list[Delivery]:
    """Read, over the one empty answer of a group that had to be made."""
    return await partition.read(limit, 1) or await partition.read(limit, 1)


async def test_events_arrive_in_the_order_of_their_user(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    await log.append(plays(5))
    await log.append(plays(9)[5:])
    assert events_of(await read(log.partition(NUMBER, "a"))) == plays(9)


async def test_events_of_many_users_land_each_in_its_partition(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    events = [Event(i, "log", i * 2**32) for i in range(1, 2_501)]
    await log.append(events)
    found = [
        event for number in range(PARTITIONS) for event in events_of(await read(log.partition(number, "a"), 9_999))
    ]
    assert sorted(found, key=lambda event: event.id) == events


async def test_an_entry_goes_to_one_consumer_of_the_group(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    await log.append(plays(10))
    first = await read(log.partition(NUMBER, "a"), 6)
    second = await read(log.partition(NUMBER, "b"), 6)
    assert events_of(first) + events_of(second) == plays(10)


async def test_a_consumer_that_vanished_leaves_its_entries_to_another(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    await log.append(plays(3))
    held = await read(log.partition(NUMBER, "gone"))
    heir = log.partition(NUMBER, "heir")
    assert await read(heir) == []
    assert await heir.claim(60_000, 100) == []
    assert await heir.claim(0, 100) == held
    await heir.acknowledge(held)
    assert await log.partition(NUMBER, "third").claim(0, 100) == []


async def test_entries_that_are_kept_are_not_idle(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    await log.append(plays(2))
    worker = log.partition(NUMBER, "worker")
    held = await read(worker)
    # Idle for ten minutes, as XCLAIM can say it.
    for delivery in held:
        await client.execute_command(  # type: ignore[no-untyped-call]
            "XCLAIM", stream_key(NUMBER), "fan-out", "worker", 0, delivery.id, "IDLE", 600_000
        )
    await worker.keep(held[:1])
    assert await log.partition(NUMBER, "other").claim(300_000, 100) == held[1:]
    assert [delivery.id for delivery in await worker.own_pending(100)] == [held[0].id]


async def test_keeping_what_was_acknowledged_brings_nothing_back(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    await log.append(plays(1))
    worker = log.partition(NUMBER, "worker")
    held = await read(worker)
    await worker.acknowledge(held)
    await worker.keep(held)
    assert await worker.own_pending(100) == []


async def test_failures_are_counted_across_consumers_until_acknowledged(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    await log.append(plays(1))
    one, other = log.partition(NUMBER, "one"), log.partition(NUMBER, "other")
    (delivery,) = await read(one)
    assert await one.count_failure(delivery) == 1
    assert await other.count_failure(delivery) == 2
    await other.acknowledge([delivery])
    assert await one.count_failure(delivery) == 1


async def test_trimming_keeps_what_is_pending_and_what_comes_after_it(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    await log.append(plays(10))
    worker = log.partition(NUMBER, "worker")
    held = await read(worker, 6)
    await worker.acknowledge([*held[:3], *held[4:]])
    trimmed, _ = await worker.tidy(60_000)
    assert trimmed == 3
    assert await log.partition(NUMBER, "other").claim(0, 100) == [held[3]]
    assert events_of(await read(worker)) == plays(10)[6:]


async def test_trimming_keeps_what_was_never_delivered(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    await log.append(plays(4))
    worker = log.partition(NUMBER, "worker")
    assert await worker.tidy(60_000) == (0, 0)  # no group yet
    held = await read(worker, 1)
    assert events_of(held) == plays(1)
    await worker.acknowledge(held)
    await worker.tidy(60_000)
    assert events_of(await read(worker)) == plays(4)[1:]


async def test_a_log_that_is_done_with_is_trimmed_to_one_entry(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    await log.append(plays(500))
    worker = log.partition(NUMBER, "worker")
    await worker.acknowledge(await read(worker, 500))
    assert await worker.tidy(60_000) == (499, 0)
    assert await log.depths() == [Depth(0, 0)] * PARTITIONS


async def test_only_consumers_with_nothing_pending_are_forgotten(client: redis.asyncio.Redis) -> None:
    async def names() -> set[bytes]:
        return {consumer["name"] for consumer in await client.xinfo_consumers(stream_key(NUMBER), "fan-out")}

    log = EventLog(client)
    await log.append(plays(2))
    done, busy, last = (log.partition(NUMBER, name) for name in ("done", "busy", "last"))
    await done.acknowledge(await read(done, 1))
    held = await read(busy, 1)
    await last.tidy(60_000)
    assert await names() == {b"done", b"busy"}
    await last.tidy(-1)
    assert await names() == {b"busy"}
    assert await last.claim(0, 10) == held
    await last.tidy(60_000, leaving=True)
    assert b"last" in await names()
    await last.acknowledge(held)
    await last.tidy(60_000, leaving=True)
    assert b"last" not in await names()


async def test_a_group_that_was_lost_is_made_again_from_the_first_entry(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    worker = log.partition(NUMBER, "worker")
    await log.append(plays(3))
    held = await read(worker)
    await client.flushall()
    await worker.acknowledge(held)
    await worker.keep(held)
    await log.append(plays(2))
    assert events_of(await read(worker)) == plays(2)
    await client.delete(stream_key(NUMBER))
    assert await worker.claim(0, 10) == []
    assert await worker.own_pending(10) == []
    await log.append(plays(1))
    assert events_of(await read(worker)) == plays(1)


async def test_depths_tell_what_is_undelivered_and_what_is_pending(client: redis.asyncio.Redis) -> None:
    log = EventLog(client)
    assert await log.depths() == [Depth(0, 0)] * PARTITIONS
    await log.append(plays(10))
    assert (await log.depths())[NUMBER] == Depth(10, 0)
    worker = log.partition(NUMBER, "worker")
    held = await read(worker, 4)
    assert (await log.depths())[NUMBER] == Depth(6, 4)
    await worker.acknowledge(held)
    newest: Any = await client.xrevrange(stream_key(NUMBER), count=1)
    await client.xdel(stream_key(NUMBER), newest[0][0])  # after a deletion Redis does not know the lag
    assert (await log.depths())[NUMBER] == Depth(5, 0)
