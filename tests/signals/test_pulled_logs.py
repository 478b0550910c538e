"""The published lengths of pulled users' logs, as the web processes hold them."""

from __future__ import annotations

from signals.pulled_logs import KEY, TAG, PulledLogs, publish
from signals.redis import SharedRedis
from tests.signals.manual_clock import ManualClock
from workers.lease import Lease

INTERVAL_MS = 1_000
LAST_ID = 2**63 - 1


async def now_ms(redis: SharedRedis) -> int:
    seconds, microseconds = await redis.call("TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000


async def test_lengths_reach_a_process_whole_and_are_fetched_again_only_when_they_changed(
    shared_redis: SharedRedis,
) -> None:
    lease = Lease(shared_redis, TAG, 60)
    await lease.acquire()
    logs = PulledLogs(shared_redis, INTERVAL_MS)
    assert logs.late
    await logs.refresh()
    assert logs.late
    lengths = {LAST_ID: 2**32 - 1, 2**53 + 1: 7, 1: 0}
    assert await publish(shared_redis, lease.key, lease.claim, await now_ms(shared_redis), "a", lengths)
    await logs.refresh()
    assert not logs.late
    assert {owner: logs.length(owner) for owner in lengths} == lengths
    assert logs.length(2**53) is None
    await shared_redis.call("HSET", KEY, "lengths", "what is not fetched")
    await shared_redis.call("HINCRBY", KEY, "as_of", 1)
    await logs.refresh()
    assert logs.length(LAST_ID) == 2**32 - 1
    assert await publish(shared_redis, lease.key, lease.claim, await now_ms(shared_redis) + 5, "b", {})
    await logs.refresh()
    assert logs.length(LAST_ID) is None


async def test_only_who_holds_the_lease_publishes(shared_redis: SharedRedis) -> None:
    old, new = Lease(shared_redis, TAG, 60), Lease(shared_redis, TAG, 60)
    await old.acquire()
    claim = old.claim
    await old.release()
    await new.acquire()
    assert await publish(shared_redis, new.key, new.claim, 1, "new", {1: 1})
    assert not await publish(shared_redis, old.key, claim, 2, "old", {1: 9})
    assert await shared_redis.call("HGET", KEY, "content") == b"new"


async def test_lengths_are_never_followed_by_those_of_an_earlier_moment(shared_redis: SharedRedis) -> None:
    lease = Lease(shared_redis, TAG, 60)
    await lease.acquire()
    logs = PulledLogs(shared_redis, INTERVAL_MS)
    now = await now_ms(shared_redis)
    await publish(shared_redis, lease.key, lease.claim, now, "new", {1: 5})
    await logs.refresh()
    await publish(shared_redis, lease.key, lease.claim, now - 700, "rewound", {1: 4})
    await logs.refresh()
    assert logs.length(1) == 5
    await shared_redis.call("FLUSHALL")
    await logs.refresh()
    assert logs.length(1) == 5


async def test_what_this_process_read_itself_stands_until_something_newer_is_published(
    shared_redis: SharedRedis,
) -> None:
    clock = ManualClock()
    lease = Lease(shared_redis, TAG, 60)
    await lease.acquire()
    logs = PulledLogs(shared_redis, INTERVAL_MS, monotonic=clock.monotonic)
    await publish(shared_redis, lease.key, lease.claim, await now_ms(shared_redis), "a", {1: 5})
    await logs.refresh()
    clock.advance(2_900)
    assert not logs.late
    clock.advance(300)
    assert logs.late
    logs.take({1: 6, 2: 1}, clock.monotonic())
    assert not logs.late
    assert (logs.length(1), logs.length(2)) == (6, 1)
    logs.take({1: 5}, clock.monotonic() - 1)
    assert logs.length(1) == 6
    clock.advance(1_000)
    await publish(shared_redis, lease.key, lease.claim, await now_ms(shared_redis), "a", {1: 5})
    await logs.refresh()  # the content is that of before, and what this process had of it is gone
    assert (logs.length(1), logs.length(2)) == (5, None)
