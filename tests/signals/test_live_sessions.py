"""The write path: what is one call, whose answer is whose, and what a shard holds afterwards."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from signals.live_sessions import (
    LIVE_KEYS,
    MAX_ITEMS,
    LiveSessions,
    beat_interval_ms,
    next_heartbeat_in_seconds,
)
from signals.redis import Argument, Reply, RoundTrips, Script, SharedRedis, round_trips
from signals.shards import SHARDS, shard_of
from tests.signals.live_stage import TTL_SECONDS, LiveStage
from tests.signals.over_redis import OverRedis

G, H = 7, 8


class WatchedRedis(OverRedis):
    """Notes script calls; may hold them back or fail them."""

    def __init__(self, redis: SharedRedis) -> None:
        super().__init__(redis)
        self.items: list[int] = []  # how many each call carried
        self.open = asyncio.Event()
        self.open.set()
        self.failure: RedisError | None = None

    async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
        """Run a script once the gate is open."""
        self.items.append((len(args) - 2) // 2)
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        return await super().run(script, keys, args)


@pytest.fixture
async def watched(shared_redis: SharedRedis) -> WatchedRedis:
    return WatchedRedis(shared_redis)


@pytest.fixture
async def live(watched: WatchedRedis) -> AsyncIterator[LiveSessions]:
    live = LiveSessions(watched, TTL_SECONDS)
    yield live
    watched.open.set()
    await live.close()


def users_of_one_shard(count: int) -> list[int]:
    return list(itertools.islice((user for user in itertools.count(1) if shard_of(user) == 0), count))


async def test_what_arrives_together_for_a_shard_is_one_call(live: LiveSessions, watched: WatchedRedis) -> None:
    await asyncio.gather(*(live.beat(user, "s", G) for user in users_of_one_shard(100)))
    assert watched.items == [100]


async def test_what_arrives_together_for_all_shards_is_one_round_trip(
    live: LiveSessions, watched: WatchedRedis
) -> None:
    trips = RoundTrips()
    token = round_trips.set(trips)
    await asyncio.gather(*(live.beat(user, "s", G) for user in range(1, 1001)))
    round_trips.reset(token)
    assert len(watched.items) == SHARDS
    assert trips.count == 1


async def test_each_request_in_a_call_is_charged_once(live: LiveSessions, watched: WatchedRedis) -> None:
    async def request(user: int) -> int:
        trips = RoundTrips()
        round_trips.set(trips)
        await asyncio.gather(live.beat(user, "a", G), live.beat(user, "b", G))
        return trips.count

    first, second = users_of_one_shard(2)
    counts = await asyncio.gather(*map(request, (first, second)))
    assert counts == [1, 1]
    assert watched.items == [4]


async def test_a_lone_beat_leaves_within_two_turns_of_the_loop(live: LiveSessions, watched: WatchedRedis) -> None:
    beat = asyncio.create_task(live.beat(1, "s", G))
    for _ in range(3):
        await asyncio.sleep(0)
    assert watched.items == [1]
    await beat


async def test_while_a_call_is_under_way_the_shard_gathers(live: LiveSessions, watched: WatchedRedis) -> None:
    first, *others = users_of_one_shard(10)
    watched.open.clear()
    beats = [asyncio.create_task(live.beat(first, "s", G))]
    await asyncio.sleep(0.005)
    for user in others:
        beats.append(asyncio.create_task(live.beat(user, "s", G)))
        await asyncio.sleep(0.005)
    assert watched.items == [1]
    watched.open.set()
    await asyncio.gather(*beats)
    assert watched.items == [1, 9]


async def test_a_stalled_shard_holds_up_no_other(shared_redis: SharedRedis) -> None:
    class OneShardStalls(WatchedRedis):
        async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
            if keys[0] == LIVE_KEYS[0][0]:
                await self.open.wait()
            return await OverRedis.run(self, script, keys, args)

    stalls = OneShardStalls(shared_redis)
    stalls.open.clear()
    live = LiveSessions(stalls, TTL_SECONDS)
    [stalled] = users_of_one_shard(1)
    beat = asyncio.create_task(live.beat(stalled, "s", G))
    other = next(user for user in range(1, 100) if shard_of(user) != 0)
    assert (await live.beat(other, "s", G)).live
    assert not beat.done()
    stalls.open.set()
    assert (await beat).live
    await live.close()


async def test_a_users_beats_are_done_in_the_order_they_came(live: LiveSessions, stage: LiveStage) -> None:
    numbers = [*range(1, 40)]
    await asyncio.gather(*(live.beat(1, "s", number) for number in numbers))
    held = await stage.redis.call("HGET", LIVE_KEYS[shard_of(1)].games, "1:s")
    assert held[:-1] == b"39"  # behind it the day on which its user was told to be a player


async def test_more_than_a_call_holds_goes_in_several(live: LiveSessions, watched: WatchedRedis) -> None:
    users = users_of_one_shard(MAX_ITEMS + 10)
    beats = await asyncio.gather(*(live.beat(user, "s", G) for user in users))
    assert all(beat.live for beat in beats)
    assert watched.items == [MAX_ITEMS, 10]


async def test_a_failed_call_fails_its_callers_and_those_who_waited_behind_it(
    live: LiveSessions, watched: WatchedRedis
) -> None:
    first, second = users_of_one_shard(2)
    watched.open.clear()
    watched.failure = RedisConnectionError("away")
    under_way = asyncio.create_task(live.beat(first, "s", G))
    await asyncio.sleep(0.005)
    behind = asyncio.create_task(live.beat(second, "s", G))
    await asyncio.sleep(0.005)
    watched.open.set()
    results = await asyncio.gather(under_way, behind, return_exceptions=True)
    assert [type(result) for result in results] == [RedisConnectionError] * 2
    watched.failure = None
    assert (await live.beat(first, "s", G)).live


async def test_a_caller_that_goes_away_cancels_nothing_for_the_others(
    live: LiveSessions, watched: WatchedRedis
) -> None:
    first, second = users_of_one_shard(2)
    watched.open.clear()
    leaving = asyncio.create_task(live.beat(first, "s", G))
    staying = asyncio.create_task(live.beat(second, "s", G))
    await asyncio.sleep(0.005)
    leaving.cancel()
    watched.open.set()
    assert (await staying).live
    assert leaving.cancelled() or await asyncio.wait([leaving])
    assert watched.items == [2]


async def test_closing_sends_what_waits(watched: WatchedRedis, stage: LiveStage) -> None:
    live = LiveSessions(watched, TTL_SECONDS, gather_seconds=3600, clock_ms=stage.clock.ms)
    await live.beat(1, "s", G)
    waiting = asyncio.create_task(live.beat(2, "s", G))
    await asyncio.sleep(0)
    await live.close()
    assert (await waiting).live
    assert await stage.counts(G) == (2, 2)


@pytest.mark.parametrize("number", [0, -1])
async def test_a_number_that_no_game_has_is_refused(live: LiveSessions, number: int) -> None:
    with pytest.raises(ValueError, match="not a game's number"):
        await live.beat(1, "s", number)


async def test_ids_that_a_double_cannot_tell_apart_stay_apart(stage: LiveStage) -> None:
    users = [2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1]
    for user in users:
        await stage.live.beat(user, "s" * 64, 2**32 - 1)
    assert await stage.counts(2**32 - 1) == (4, 4)
    for left, user in enumerate(users):
        assert await stage.live.end(user, "s" * 64)
        assert await stage.counts(2**32 - 1) == (3 - left, 3 - left)


async def test_a_session_belongs_to_its_user(stage: LiveStage) -> None:
    await stage.live.beat(1, "same", G)
    await stage.live.beat(2, "same", H)
    assert not await stage.live.end(3, "same")
    assert await stage.live.end(2, "same")
    assert await stage.counts(G) == (1, 1)


async def test_games_whose_numbers_contain_each_other_are_not_mixed_up(stage: LiveStage) -> None:
    for session, number in enumerate((1, 11, 111, 11, 1)):
        await stage.live.beat(5, f"s{session}", number)
    assert [await stage.counts(number) for number in (1, 11, 111)] == [(2, 1), (2, 1), (1, 1)]
    await stage.live.end(5, "s1")
    assert [await stage.counts(number) for number in (1, 11, 111)] == [(2, 1), (1, 1), (1, 1)]


async def test_scripts_write_nothing_but_the_keys_of_their_shard(stage: LiveStage) -> None:
    declared = set(LIVE_KEYS[shard_of(1)])
    await stage.live.beat(1, "a", G)
    await stage.live.beat(1, "b", H)
    await stage.live.beat(1, "a", H)
    await stage.live.end(1, "b")
    await stage.visibility.load([shard_of(1)])
    await stage.hide(1)
    assert set(await stage.redis.call("KEYS", "*")) <= declared


async def test_by_redis_own_clock_a_session_expires_one_ttl_from_now(shared_redis: SharedRedis) -> None:
    live = LiveSessions(shared_redis, TTL_SECONDS)
    before, _ = await shared_redis.call("TIME")
    beat = await live.beat(1, "s", G)
    after, _ = await shared_redis.call("TIME")
    assert beat.expires_at is not None
    assert int(before) + TTL_SECONDS <= beat.expires_at < int(after) + 1 + TTL_SECONDS


def test_clients_are_told_a_third_of_the_ttl_spread_by_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, _high: low)
    assert next_heartbeat_in_seconds(60) == pytest.approx(18)
    monkeypatch.setattr(random, "uniform", lambda _low, high: high)
    assert next_heartbeat_in_seconds(60) == pytest.approx(22)
    assert beat_interval_ms(60) == 22_000
