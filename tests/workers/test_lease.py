"""A lease has one holder, whose token grows with every new one, and who learns when it is over."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from signals.redis import Reply, SharedRedis
from workers.lease import Lease


async def test_one_of_two_holds_it(shared_redis: SharedRedis) -> None:
    first, second = Lease(shared_redis, "job", 60), Lease(shared_redis, "job", 60)
    assert await first.acquire() is not None
    assert await second.acquire() is None
    assert first.held
    assert not second.held


async def test_two_names_are_two_leases(shared_redis: SharedRedis) -> None:
    assert await Lease(shared_redis, "job", 60).acquire() is not None
    assert await Lease(shared_redis, "other", 60).acquire() is not None


async def test_of_many_at_once_exactly_one_gets_it(shared_redis: SharedRedis) -> None:
    tokens = await asyncio.gather(*(Lease(shared_redis, "job", 60).acquire() for _ in range(50)))
    assert sum(token is not None for token in tokens) == 1


async def test_the_token_grows_with_every_new_holder(shared_redis: SharedRedis) -> None:
    tokens = []
    for _ in range(5):
        lease = Lease(shared_redis, "job", 60)
        tokens.append(await lease.acquire())
        await lease.release()
    assert all(token is not None for token in tokens)
    assert tokens == sorted(set(tokens), key=lambda token: token or 0)


async def test_the_token_grows_over_a_redis_that_lost_its_data(shared_redis: SharedRedis) -> None:
    before = Lease(shared_redis, "job", 60)
    first = await before.acquire()
    await shared_redis.call("FLUSHALL")
    second = await Lease(shared_redis, "job", 60).acquire()
    assert first is not None
    assert second is not None
    assert second > first


async def test_asked_again_a_holder_keeps_its_token(shared_redis: SharedRedis) -> None:
    lease = Lease(shared_redis, "job", 60)
    assert await lease.acquire() == await lease.acquire()


async def test_it_lapses_when_nobody_renews_it(shared_redis: SharedRedis) -> None:
    first, second = Lease(shared_redis, "job", 0.05), Lease(shared_redis, "job", 0.05)
    token = await first.acquire()
    async with asyncio.timeout(10):
        while (later := await second.acquire()) is None:  # noqa: ASYNC110  # Redis's own clock ends it
            await asyncio.sleep(0.005)
    assert token is not None
    assert later > token


async def test_renewing_moves_its_end(shared_redis: SharedRedis) -> None:
    lease = Lease(shared_redis, "job", 60)
    await lease.acquire()
    await shared_redis.call("PEXPIRE", lease.key, 20_000)
    assert await lease.renew()
    assert await shared_redis.call("PTTL", lease.key) > 50_000


async def test_a_holder_that_lost_it_learns_so_and_does_not_disturb_the_next(shared_redis: SharedRedis) -> None:
    first, second = Lease(shared_redis, "job", 60), Lease(shared_redis, "job", 60)
    await first.acquire()
    await shared_redis.call("DEL", first.key)  # as if its ttl had passed while it stalled
    await second.acquire()
    assert not await first.renew()
    assert first.token is None
    assert not first.held
    await first.release()
    assert await second.renew()


async def test_a_zombies_release_does_not_end_the_next_term(shared_redis: SharedRedis) -> None:
    first, second = Lease(shared_redis, "job", 60), Lease(shared_redis, "job", 60)
    await first.acquire()
    await shared_redis.call("DEL", first.key)
    await second.acquire()
    await first.release()
    assert await second.renew()


async def test_released_it_is_free_at_once(shared_redis: SharedRedis) -> None:
    first, second = Lease(shared_redis, "job", 60), Lease(shared_redis, "job", 60)
    await first.acquire()
    await first.release()
    assert await second.acquire() is not None
    assert not await first.renew()


async def test_held_ends_by_the_holders_own_clock_while_redis_is_away(shared_redis: SharedRedis) -> None:
    now = 100.0
    lease = Lease(shared_redis, "job", 2, monotonic=lambda: now)
    await lease.acquire()
    now += 1.9
    assert lease.held
    now += 0.2
    assert not lease.held


async def test_a_lost_reply_leaves_no_lease_that_nobody_knows(
    shared_redis: SharedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Lease(shared_redis, "job", 60)
    run = shared_redis.run

    async def lose_the_reply(*args: object) -> Reply:
        await run(*args)  # type: ignore[arg-type]  # handed through
        raise RedisConnectionError("reply lost")

    with monkeypatch.context() as patch:
        patch.setattr(shared_redis, "run", lose_the_reply)
        with pytest.raises(RedisConnectionError):
            await lease.acquire()
    assert await lease.acquire() is not None


async def test_a_lease_from_before_the_clock_was_set_back_ends_within_its_ttl(shared_redis: SharedRedis) -> None:
    first, second = Lease(shared_redis, "job", 60), Lease(shared_redis, "job", 60)
    await first.acquire()
    await shared_redis.call("PEXPIRE", first.key, 3_600_000)  # what a step back by an hour makes of it
    assert await second.acquire() is None
    assert await shared_redis.call("PTTL", first.key) <= 60_000
