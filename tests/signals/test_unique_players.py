"""The players of a day: who counts, on which day, for how long, and what a page is told when Redis lost some."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from signals.live_sessions import LIVE_KEYS
from signals.redis import Argument, Reply, Script
from signals.shards import SHARDS, shard_of
from signals.unique_players import MAX_ITEMS, UniquePlayers, day_of
from tests.signals.live_stage import STALE_MAX_SECONDS, TTL_SECONDS, LiveStage
from tests.signals.manual_clock import ManualClock
from tests.signals.over_redis import OverRedis
from workers.unique_players import FEWEST_NOTES, UniqueCounts

G, H = 7, 8
NOON_MS = 1_800_014_400_000
MIDNIGHT_MS = NOON_MS + 12 * 3_600_000
ERROR = 0.0081  # the standard error of a HyperLogLog of 2^14 registers (Flajolet et al., 2007): 1.04 / sqrt(16384)


@pytest.fixture
def stage(stage: LiveStage) -> LiveStage:
    """At noon."""
    stage.clock.step(NOON_MS - stage.clock.ms())
    return stage


async def players(stage: LiveStage, number: int) -> int | None:
    """What pages are told as of now."""
    await stage.recount()
    return stage.totals.players_today(number)


async def test_devices_moves_ends_and_returns_count_once(stage: LiveStage) -> None:
    await stage.live.beat(1, "phone", G)
    await stage.live.beat(1, "desk", G)
    await stage.live.beat(2, "s", G)
    assert await players(stage, G) == 2
    assert await players(stage, H) == 0
    await stage.live.beat(1, "phone", H)
    await stage.live.end(2, "s")
    assert await players(stage, G) == 2  # it only grows
    assert await players(stage, H) == 1
    stage.clock.advance(3_600_000)
    await stage.live.beat(2, "again", G)
    assert await players(stage, G) == 2
    assert await stage.counts(G) == (1, 1)


async def test_a_session_that_passes_midnight_counts_on_both_days(stage: LiveStage) -> None:
    stage.clock.advance(MIDNIGHT_MS - NOON_MS - 1)
    await stage.live.beat(1, "s", G)
    await stage.live.beat(2, "s", G)
    assert await players(stage, G) == 2
    stage.clock.advance(1)
    assert await players(stage, G) == 0
    assert await stage.counts(G) == (2, 2)
    await stage.live.beat(1, "s", G)
    assert await players(stage, G) == 1


async def test_a_clock_that_is_set_back_over_midnight_shows_that_days_players_again(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    assert await players(stage, G) == 1
    stage.clock.step(MIDNIGHT_MS - stage.clock.ms())
    for user in (2, 3):
        await stage.live.beat(user, "s", G)
    assert await players(stage, G) == 2
    stage.clock.step(-1000)
    assert await players(stage, G) == 1
    await stage.live.beat(2, "s", G)
    assert await players(stage, G) == 2


async def test_a_later_beat_of_the_day_notes_nothing(stage: LiveStage) -> None:
    notes = LIVE_KEYS[shard_of(1)].new_players
    await stage.live.beat(1, "s", G)
    assert await stage.redis.call("SCARD", notes) == 1
    await stage.recount()
    assert await stage.redis.call("SCARD", notes) == 0
    stage.clock.advance(20_000)
    await stage.live.beat(1, "s", G)
    assert await stage.redis.call("SCARD", notes) == 0


async def test_who_hides_is_not_counted_until_a_beat_after_it(stage: LiveStage) -> None:
    await stage.hide(1)
    await stage.live.beat(1, "s", G)
    assert await players(stage, G) == 0
    await stage.hide(1, hidden=False)
    assert await players(stage, G) == 0
    await stage.live.beat(1, "s", G)
    assert await players(stage, G) == 1


async def test_who_hides_before_the_recount_is_not_counted_either(stage: LiveStage) -> None:
    await stage.recount()
    await stage.live.beat(1, "s", G)
    await stage.hide(1)
    assert await players(stage, G) == 0
    await stage.hide(1, hidden=False)
    await stage.live.beat(1, "s", G)  # the same session, the same day
    assert await players(stage, G) == 1


async def test_nobody_is_counted_before_it_is_known_who_hides(stage: LiveStage) -> None:
    stage.users.change(1, hidden=True)
    await stage.live.beat(1, "s", G)
    await stage.live.beat(2, "s", G)
    taken = await UniquePlayers(stage.redis).take(range(SHARDS), 10)
    assert all(of_shard == (True, []) for of_shard in taken.values())
    assert await players(stage, G) == 1


async def test_large_numbers_are_within_the_error(stage: LiveStage) -> None:
    """Four standard errors are passed by one set of users in 16,000, and this set is always the same."""
    users = 20_000
    note = [b"%d:%d:%d:s" % (day_of(NOON_MS), G, 10**9 + user) for user in range(users)]
    counted = await UniquePlayers(stage.redis).count_in("origin", note, NOON_MS)
    [count] = counted.values()
    assert abs(count - users) < 4 * ERROR * users


async def test_a_viral_game_is_one_call_a_batch_and_its_keys_leave_after_two_days(stage: LiveStage) -> None:
    class Watched(OverRedis):
        sizes: list[int] = []  # noqa: RUF012  # of this one test

        async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
            if script.name == "count_players":
                self.sizes.append(len(args) - 1)
            return await super().run(script, keys, args)

    watched = Watched(stage.redis)
    stage.leader = stage.new_leader(watched)
    count = MAX_ITEMS + 100
    await asyncio.gather(*(stage.live.beat(user, "s", G) for user in range(1, count + 1)))
    found = await players(stage, G)
    assert found is not None
    assert abs(found - count) < 4 * ERROR * count
    assert sorted(watched.sizes) == [100, MAX_ITEMS]
    [key] = await stage.redis.call("KEYS", "up:*")
    assert 0 <= 36 * 3600 - await stage.redis.call("TTL", key) < 60  # from noon until the end of the next day


async def test_a_backlog_is_taken_in_parts_that_follow_what_they_cost(stage: LiveStage) -> None:
    await stage.visibility.load()
    await asyncio.gather(*(stage.live.beat(1, f"s{index}", 1 + index) for index in range(FEWEST_NOTES * 8)))
    clock = ManualClock()
    counts = UniqueCounts(stage.redis, 1000, monotonic=clock.monotonic)
    found = []
    for _ in range(4):
        await counts.collect("origin", NOON_MS, [shard_of(1)], list)
        await counts.published()
        found.append(len(counts.numbers()))
    assert found == [FEWEST_NOTES, FEWEST_NOTES * 3, FEWEST_NOTES * 7, FEWEST_NOTES * 8]


async def test_a_leader_that_dies_before_it_publishes_costs_nothing(stage: LiveStage) -> None:
    class Dies(OverRedis):
        async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
            if script.name == "publish_totals":
                raise RedisConnectionError("dead")
            return await super().run(script, keys, args)

    await stage.live.beat(1, "s", G)
    await stage.recount()
    await stage.end_the_lease()
    dies = stage.new_leader(Dies(stage.redis))
    await stage.live.beat(2, "s", G)
    assert await dies.lead()
    with pytest.raises(RedisConnectionError):
        await dies.recount()
    await stage.end_the_lease()
    stage.leader = stage.new_leader()
    await stage.recount()
    assert await players(stage, G) == 2


async def test_players_that_cannot_be_counted_take_nothing_else_along_and_become_unknown(stage: LiveStage) -> None:
    class Away(OverRedis):
        away = False

        async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
            if self.away and script.name == "count_players":
                raise RedisConnectionError("away")
            return await super().run(script, keys, args)

    away = Away(stage.redis)
    stage.leader = stage.new_leader(away)
    await stage.live.beat(1, "s", G)
    assert await players(stage, G) == 1
    away.away = True
    await stage.live.beat(2, "s", G)
    assert await stage.counts(G) == (2, 2)
    assert stage.totals.players_today(G) == 1
    async with stage.totals.subscribe([G], players=True) as changes:
        stage.clock.advance(STALE_MAX_SECONDS * 1000 + 1)
        assert await stage.counts(G) == (0, 0)
        assert stage.totals.players_today(G) is None
        assert await anext(changes) == {G}
    away.away = False
    assert await players(stage, G) == 2


async def test_after_a_loss_they_are_unknown_until_midnight(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    assert await players(stage, G) == 1
    await stage.redis.call("FLUSHALL")
    await stage.live.beat(2, "s", G)
    await stage.recount()
    await stage.recount()
    newcomer = stage.new_reader()
    stage.clock.advance(TTL_SECONDS * 1000)
    await stage.recount()
    await newcomer.refresh()
    assert await stage.counts(G) == (0, 0)  # live counts are known again
    assert stage.totals.players_today(G) is None
    assert newcomer.players_today(G) is None
    stage.clock.advance(MIDNIGHT_MS - stage.clock.ms())
    await stage.live.beat(3, "s", G)
    assert await players(stage, G) == 1


async def test_a_lost_reply_to_the_first_publication_makes_nothing_unknown(stage: LiveStage) -> None:
    class Loses(OverRedis):
        lose = True

        async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
            reply = await super().run(script, keys, args)
            if script.name == "publish_totals" and self.lose:
                self.lose = False
                raise RedisConnectionError("reply lost")
            return reply

    stage.leader = stage.new_leader(Loses(stage.redis))
    await stage.live.beat(1, "s", G)
    assert await stage.leader.lead()
    with pytest.raises(RedisConnectionError):
        await stage.leader.recount()
    assert await stage.counts(G) == (1, 1)
    assert stage.totals.players_today(G) == 1


async def test_who_watches_players_is_told_of_them_and_who_does_not_is_not(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.recount()
    async with stage.totals.subscribe([G, H], players=True) as both, stage.totals.subscribe([G, H]) as live:
        assert stage.totals.subscribers == 2
        await stage.live.end(1, "s")
        await stage.live.beat(2, "s", G)  # as many as before, and another one
        await stage.recount()
        assert await anext(both) == {G}
        told = asyncio.ensure_future(anext(live))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not told.done()
        told.cancel()
