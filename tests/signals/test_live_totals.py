"""The table of totals that every process holds: what it shows when, and whom it tells."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from signals.change_feed import Changes
from signals.live_sessions import beat_interval_ms
from signals.live_totals import LiveTotals
from signals.published_totals import CHANGES_KEPT
from signals.redis import Argument, Reply, RoundTrips, Script, round_trips
from tests.signals.live_stage import STALE_MAX_SECONDS, TTL_SECONDS, LiveStage
from tests.signals.over_redis import OverRedis
from tests.storm.redis_snapshot import RedisSnapshot
from tests.waiting import until

G, H, NEVER = 7, 8, 9


class AwayRedis(OverRedis):
    """Nobody answers while `away`."""

    away = False

    async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
        """Run a script, or fail."""
        if self.away:
            raise RedisConnectionError("away")
        return await super().run(script, keys, args)


async def test_unknown_before_anything_was_published(stage: LiveStage) -> None:
    await stage.totals.refresh()
    assert stage.totals.sessions(G) is None
    assert stage.totals.people(G) is None
    assert stage.totals.as_of is None
    assert stage.totals.ranked() == ()


async def test_a_first_start_is_known_at_once(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    assert await stage.counts(G) == (1, 1)
    assert await stage.counts(NEVER) == (0, 0)
    assert stage.totals.as_of == stage.clock.ms() / 1000


async def test_reading_asks_nobody(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.recount()
    trips = RoundTrips()
    token = round_trips.set(trips)
    assert stage.totals.sessions(G) == stage.totals.people(G) == 1
    assert stage.totals.ranked() == (G,)
    round_trips.reset(token)
    assert trips.count == 0


async def test_a_refresh_is_one_round_trip(stage: LiveStage) -> None:
    await stage.recount()
    trips = RoundTrips()
    token = round_trips.set(trips)
    await stage.totals.refresh()
    round_trips.reset(token)
    assert trips.count == 1


async def test_ranked_by_sessions_then_number(stage: LiveStage) -> None:
    for user, number in enumerate((5, 5, 9, 3, 4, 4), start=1):
        await stage.live.beat(user, "s", number)
    await stage.recount()
    assert stage.totals.ranked() == (4, 5, 3, 9)
    assert stage.totals.ranked() is stage.totals.ranked()
    await stage.live.beat(9, "s", 9)
    await stage.live.beat(10, "s", 9)
    await stage.recount()
    assert stage.totals.ranked() == (9, 4, 5, 3)


async def test_values_stay_while_redis_is_away_until_they_are_too_old_and_heal(stage: LiveStage) -> None:
    away = AwayRedis(stage.redis)
    totals = stage.new_reader(away)
    await stage.live.beat(1, "s", G)
    await stage.recount()
    await totals.refresh()
    async with totals.subscribe([G, H]) as changes:
        away.away = True
        stage.clock.advance(STALE_MAX_SECONDS * 1000)
        with pytest.raises(RedisError):
            await totals.refresh()
        assert totals.sessions(G) == 1
        stage.clock.advance(1)
        assert totals.sessions(G) is None
        assert totals.as_of is None
        with pytest.raises(RedisError):
            await totals.refresh()
        assert await anext(changes) == {G, H}  # told that they are unknown now
        away.away = False
        await stage.live.beat(2, "s", G)
        await stage.recount()
        await totals.refresh()
        assert totals.sessions(G) == 1  # the first one died meanwhile
        assert await anext(changes) == {G, H}


async def test_totals_that_nobody_recounts_become_unknown_though_redis_answers(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.recount()
    stage.clock.advance(STALE_MAX_SECONDS * 1000)
    await stage.totals.refresh()
    assert stage.totals.sessions(G) == 1
    stage.clock.advance(1)
    await stage.totals.refresh()
    assert stage.totals.sessions(G) is None


async def test_a_process_that_starts_late_counts_the_age_of_what_it_finds(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.recount()
    stage.clock.advance(STALE_MAX_SECONDS * 1000 - 1)
    late = stage.new_reader()
    await late.refresh()
    assert late.sessions(G) == 1
    stage.clock.advance(2)
    assert late.sessions(G) is None


async def test_a_process_that_was_away_for_long_takes_the_whole(stage: LiveStage) -> None:
    behind = stage.new_reader()
    for publication in range(CHANGES_KEPT * 2 + 1):
        await stage.live.beat(1, "s", G + publication)
        await stage.recount()
        if publication == 0:
            await behind.refresh()
    await behind.refresh()
    assert behind.ranked() == stage.totals.ranked() == (G + CHANGES_KEPT * 2,)


@pytest.mark.parametrize("missed", range(1, CHANGES_KEPT + 2))
async def test_changes_that_were_missed_add_up(stage: LiveStage, missed: int) -> None:
    behind = stage.new_reader()
    await stage.live.beat(1, "s", G)
    await stage.live.beat(2, "s", NEVER)
    await stage.recount()
    await behind.refresh()
    for publication in range(missed):
        await stage.live.beat(1, "s", G + 100 + publication)
        await stage.recount()
    await behind.refresh()
    assert behind.ranked() == stage.totals.ranked()
    assert behind.sessions(G) == 0
    assert behind.sessions(NEVER) == 1


async def test_what_a_rewound_redis_remembers_is_not_shown(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.recount()
    behind = await RedisSnapshot.take(stage.redis)
    await stage.live.beat(2, "s", G)
    assert await stage.counts(G) == (2, 2)
    await behind.restore(stage.redis)
    await stage.totals.refresh()
    assert stage.totals.sessions(G) == 2
    await stage.totals.refresh()
    assert stage.totals.sessions(G) == 2
    await stage.recount()  # finds that something else stands, and begins another epoch
    await stage.recount()
    assert stage.totals.sessions(G) == 1


async def test_an_epoch_that_a_rewound_redis_remembers_is_not_shown(stage: LiveStage) -> None:
    """Also where a new leader had begun another epoch, and by whatever clock."""
    await stage.live.beat(1, "s", G)
    await stage.recount()
    behind = await RedisSnapshot.take(stage.redis)
    await stage.end_the_lease()
    stage.leader = stage.new_leader()
    await stage.live.beat(2, "s", G)
    stage.clock.step(-600_000)
    await stage.recount()
    await stage.recount()
    assert stage.totals.sessions(G) == 2
    await behind.restore(stage.redis)
    for _ in range(3):
        await stage.totals.refresh()
        assert stage.totals.sessions(G) == 2


async def test_a_new_redis_is_not_refused_though_its_clock_is_behind(stage: LiveStage) -> None:
    for user in range(1, 11):
        await stage.live.beat(user, "s", G)
    for _ in range(5):
        await stage.recount()
    await stage.redis.call("FLUSHALL")
    stage.clock.step(-3_600_000)
    stage.leader = stage.new_leader()
    await stage.live.beat(1, "s", G)
    await stage.recount()
    await stage.recount()
    stage.clock.advance(beat_interval_ms(TTL_SECONDS))
    assert await stage.counts(G) == (1, 1)


async def test_after_a_loss_counts_are_unknown_for_one_beat_interval(stage: LiveStage) -> None:
    """The leader that had read the shards says so to everybody, also to a process that is new."""
    for user in range(1, 11):
        await stage.live.beat(user, "s", G)
    await stage.recount()
    await stage.redis.call("FLUSHALL")
    await stage.live.beat(1, "s", G)
    newcomer = stage.new_reader()
    await stage.recount()
    await stage.recount()
    await newcomer.refresh()
    assert stage.totals.sessions(G) is None
    assert newcomer.sessions(G) is None
    for user in range(2, 11):
        await stage.live.beat(user, "s", G)
    stage.clock.advance(beat_interval_ms(TTL_SECONDS) - 1)
    assert await stage.counts(G) == (None, None)
    stage.clock.advance(1)
    assert await stage.counts(G) == (10, 10)


async def test_after_a_loss_a_process_that_remembers_more_waits_though_the_leader_is_new(stage: LiveStage) -> None:
    for user in range(1, 11):
        await stage.live.beat(user, "s", G)
    await stage.recount()
    await stage.redis.call("FLUSHALL")
    stage.leader = stage.new_leader()
    await stage.live.beat(1, "s", G)
    await stage.recount()
    assert stage.totals.sessions(G) == 10  # not believed yet, and not too old
    await stage.recount()
    assert stage.totals.sessions(G) is None
    stage.clock.advance(beat_interval_ms(TTL_SECONDS))
    assert await stage.counts(G) == (1, 1)


async def test_a_lost_shard_makes_counts_unknown_also_to_a_new_leader(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.recount()
    await stage.redis.call("DEL", *await stage.redis.call("KEYS", "l?:{5}"))
    await stage.end_the_lease()
    stage.leader = stage.new_leader()
    await stage.recount()
    await stage.recount()
    assert stage.totals.sessions(G) is None


async def test_a_takeover_makes_nothing_unknown(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.recount()
    await stage.end_the_lease()
    stage.leader = stage.new_leader()
    await stage.live.beat(2, "s", G)
    for _ in range(3):
        stage.clock.advance(1000)
        await stage.recount()
        assert stage.totals.sessions(G) is not None
    assert stage.totals.sessions(G) == 2


async def test_subscribers_are_told_what_changed_among_what_they_asked_for(stage: LiveStage) -> None:
    await stage.recount()
    async with stage.totals.subscribe([G, NEVER]) as both, stage.totals.subscribe([H]) as other:
        await stage.live.beat(1, "s", G)
        await stage.live.beat(2, "s", H)
        await stage.recount()
        assert await anext(both) == {G}
        assert await anext(other) == {H}
        await stage.live.beat(1, "s", H)
        await stage.recount()
        assert await anext(both) == {G}
        assert await anext(other) == {H}


async def test_nothing_is_told_when_nothing_changed(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.recount()
    async with stage.totals.subscribe([G]) as changes:
        await stage.live.beat(1, "s", G)
        await stage.recount()
        await stage.live.beat(2, "s", H)
        await stage.recount()
        told = asyncio.ensure_future(anext(changes))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not told.done()
        told.cancel()


async def test_a_slow_reader_gets_the_sum_of_what_it_missed(stage: LiveStage) -> None:
    await stage.recount()
    async with stage.totals.subscribe(range(1, 101)) as changes:
        assert isinstance(changes, Changes)
        for number in range(1, 51):
            await stage.live.beat(1, "s", number)
            await stage.recount()
            assert len(changes._pending) <= 100
        assert await anext(changes) == set(range(1, 51))
        await stage.live.beat(1, "s", 99)
        await stage.recount()
        assert await anext(changes) == {50, 99}


async def test_nothing_is_left_of_subscribers_that_go(stage: LiveStage) -> None:
    await stage.recount()
    before = stage.totals.subscribers

    async def watch(numbers: list[int], told: asyncio.Event) -> None:
        async with stage.totals.subscribe(numbers) as changes:
            told.set()
            async for _ in changes:
                pass

    tasks = []
    for index in range(200):
        told = asyncio.Event()
        tasks.append(asyncio.create_task(watch([G, index % 3], told)))
        await told.wait()
    assert stage.totals.subscribers == before + 200
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert stage.totals.subscribers == before == 0
    assert not stage.totals._feed._selections


async def test_a_subscriber_that_is_dropped_in_the_middle_is_collected(stage: LiveStage) -> None:
    async with stage.totals.subscribe([G]) as changes:
        dropped = weakref.ref(changes)
        stage.totals._feed.tell({G})
        await anext(changes)
    del changes
    gc.collect()
    assert dropped() is None


async def test_the_refresh_loop_goes_on_after_redis_was_away(stage: LiveStage) -> None:
    away = AwayRedis(stage.redis)
    totals = LiveTotals(away, 5, STALE_MAX_SECONDS, clock_ms=stage.clock.ms)
    away.away = True
    loop = asyncio.create_task(totals.run())
    await asyncio.sleep(0.02)
    assert totals.sessions(G) is None
    away.away = False
    await stage.live.beat(1, "s", G)
    await stage.recount()
    await until(lambda: totals.sessions(G) == 1)
    loop.cancel()
    await asyncio.wait([loop])
    assert loop.cancelled()
