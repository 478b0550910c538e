"""Small inputs to live counts, and the right outcomes."""

from __future__ import annotations

import asyncio

from signals.hidden_users import HiddenUsers
from signals.live_sessions import Beat, LiveSessions
from signals.redis import SharedRedis
from signals.shards import shard_of
from tests.signals.live_stage import TTL_SECONDS, LiveStage
from tests.waiting import until
from workers.lease import Lease
from workers.live_visibility import LiveVisibility
from workers.recount import LEASE_NAME, Recount

G, H = 7, 8


async def test_13_two_tabs_are_two_sessions_and_one_person(stage: LiveStage) -> None:
    await stage.live.beat(1, "tab-a", G)
    await stage.live.beat(1, "tab-b", G)
    assert await stage.counts(G) == (2, 1)
    assert await stage.live.end(1, "tab-a")
    assert await stage.counts(G) == (1, 1)


async def test_14_moving_without_leaving_counts_once(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    assert await stage.counts(G) == (1, 1)
    await stage.live.beat(1, "s", H)
    assert await stage.counts(G) == (0, 0)
    assert await stage.counts(H) == (1, 1)


async def test_14_a_person_in_two_games_counts_in_each_and_once_in_each(stage: LiveStage) -> None:
    await stage.live.beat(1, "phone", G)
    await stage.live.beat(1, "desk", H)
    await stage.live.beat(1, "phone", H)
    assert await stage.counts(G) == (0, 0)
    assert await stage.counts(H) == (2, 1)


async def test_15_counted_until_just_before_the_ttl_and_gone_at_it(stage: LiveStage) -> None:
    beat = await stage.live.beat(1, "s", G)
    assert beat == Beat(live=True, expires_at=stage.clock.ms() / 1000 + TTL_SECONDS)
    stage.clock.advance(59_999)
    assert await stage.counts(G) == (1, 1)
    stage.clock.advance(1)
    assert await stage.counts(G) == (0, 0)


async def test_15_the_same_rule_for_an_end(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.live.beat(2, "s", G)
    stage.clock.advance(59_999)
    assert await stage.live.end(1, "s")
    stage.clock.advance(1)
    assert not await stage.live.end(2, "s")
    assert await stage.counts(G) == (0, 0)


async def test_15_the_same_rule_for_a_late_beat(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.live.end(1, "s")
    stage.clock.advance(59_999)
    assert await stage.live.beat(1, "s", G) == Beat(live=False, expires_at=None)
    assert await stage.counts(G) == (0, 0)
    stage.clock.advance(1)
    assert (await stage.live.beat(1, "s", G)).live
    assert await stage.counts(G) == (1, 1)


async def test_15_a_heartbeat_moves_the_end(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    stage.clock.advance(59_999)
    await stage.live.beat(1, "s", G)
    stage.clock.advance(59_999)
    assert await stage.counts(G) == (1, 1)
    stage.clock.advance(1)
    assert await stage.counts(G) == (0, 0)


async def test_16_nothing_a_client_sends_carries_a_time(stage: LiveStage) -> None:
    """Beats of clients whose clocks differ arrive at one moment and die at one moment: the server's."""
    beats = await asyncio.gather(*(stage.live.beat(user, "s", G) for user in range(1, 50)))
    assert {beat.expires_at for beat in beats} == {stage.clock.ms() / 1000 + TTL_SECONDS}
    stage.clock.advance(TTL_SECONDS * 1000)
    assert await stage.counts(G) == (0, 0)


async def test_17_a_dead_server_leaves_no_ghosts(stage: LiveStage) -> None:
    """1,000 sessions, and then nobody ends anything: the next server's leader counts 0 once the TTL is over."""
    await asyncio.gather(*(stage.live.beat(user, "s", G) for user in range(1, 1001)))
    assert await stage.counts(G) == (1000, 1000)
    stage.clock.advance(TTL_SECONDS * 1000)
    await stage.end_the_lease()
    stage.leader, stage.totals = stage.new_leader(), stage.new_reader()
    assert await stage.counts(G) == (0, 0)
    assert await stage.published() == {}
    left = [key for key in await stage.redis.call("KEYS", "l[bgucdn]:*") if await stage.redis.call("EXISTS", key)]
    assert left == []


async def test_18_ending_a_session_nobody_knows_changes_nothing(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    assert not await stage.live.end(1, "other")
    assert not await stage.live.end(2, "s")
    assert await stage.counts(G) == (1, 1)
    assert await stage.live.end(1, "s")
    assert not await stage.live.end(1, "s")
    assert await stage.counts(G) == (0, 0)


async def test_18_an_unknown_end_leaves_no_mark_behind(stage: LiveStage) -> None:
    assert not await stage.live.end(1, "s")
    assert (await stage.live.beat(1, "s", G)).live


async def test_19_a_game_whose_last_session_goes_becomes_0(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.live.beat(2, "s", H)
    await stage.recount()
    async with stage.totals.subscribe([G]) as changes:
        stage.clock.advance(30_000)
        await stage.live.beat(2, "s", H)
        stage.clock.advance(30_000)
        assert await stage.counts(G) == (0, 0)
        assert await anext(changes) == {G}
    assert await stage.published() == {H: (1, 1)}


async def test_20_a_stall_makes_no_count_drift(stage: LiveStage) -> None:
    """Beats and ends that pile up for 600 ms and arrive all at once, late: the counts are those of what arrived."""
    await asyncio.gather(*(stage.live.beat(user, "s", G) for user in range(1, 101)))
    assert await stage.counts(G) == (100, 100)
    stage.clock.advance(59_700)
    waiting = [stage.live.beat(user, "s", H if user % 2 else G) for user in range(1, 51)]
    ends = [stage.live.end(user, "s") for user in range(51, 61)]
    stage.clock.advance(600)
    assert all(beat.live for beat in await asyncio.gather(*waiting))
    assert not any(await asyncio.gather(*ends))  # they died meanwhile
    assert await stage.counts(G) == (25, 25)
    assert await stage.counts(H) == (25, 25)


async def test_20_a_redis_that_stalls_makes_no_count_drift(shared_redis: SharedRedis) -> None:
    """Redis answers nobody for 600 ms, by its own clock: beats, ends and a recount wait, and all of them are right."""
    stage = LiveStage(shared_redis)
    live = LiveSessions(shared_redis, TTL_SECONDS)
    await asyncio.gather(*(live.beat(user, "s", G) for user in range(1, 101)))
    visibility = LiveVisibility(stage.users, HiddenUsers(shared_redis))
    stage.leader = Recount(shared_redis, TTL_SECONDS, 1000, Lease(shared_redis, LEASE_NAME, 3600), visibility)
    assert await stage.leader.lead()
    await shared_redis.call("CLIENT", "PAUSE", 600, "ALL")
    waiting = [asyncio.ensure_future(live.beat(user, "s", H if user % 2 else G)) for user in range(1, 51)]
    waiting += [asyncio.ensure_future(live.beat(user, "s", G)) for user in range(101, 111)]
    ends = [asyncio.ensure_future(live.end(user, "s")) for user in range(51, 61)]
    recounted = asyncio.ensure_future(stage.leader.recount())
    assert all(beat.live for beat in await asyncio.gather(*waiting))
    assert all(await asyncio.gather(*ends))
    assert await recounted
    assert await stage.leader.recount()
    assert await stage.published() == {G: (75, 75), H: (25, 25)}
    await live.close()


async def test_30_a_subscription_open_for_an_hour_stays_fresh_and_leaves_nothing(stage: LiveStage) -> None:
    await stage.recount()
    watching, hour = asyncio.Event(), 3600
    seen: list[int | None] = []

    async def watch() -> None:
        async with stage.totals.subscribe([G]) as changes:
            watching.set()
            while True:
                await anext(changes)
                seen.append(stage.totals.sessions(G))

    killed = asyncio.create_task(watch())
    await watching.wait()
    for minute in range(1, 61):
        stage.clock.advance(hour * 1000 // 60)  # whoever was there is gone
        await asyncio.gather(*(stage.live.beat(user, "s", G) for user in range(1, minute + 1)))
        await stage.recount()
        await until(lambda count=minute: seen[-1:] == [count])  # type: ignore[misc]  # mypy sees no default
    assert seen == list(range(1, 61))
    assert stage.totals.subscribers == 1
    killed.cancel()  # as a socket that was killed ends its subscription
    await asyncio.wait([killed])
    assert stage.totals.subscribers == 0


async def test_31_who_goes_away_in_the_middle_of_a_batch_takes_no_answer_along(shared_redis: SharedRedis) -> None:
    live = LiveSessions(shared_redis, TTL_SECONDS)
    shard = shard_of(1)
    users = [user for user in range(1, 2000) if shard_of(user) == shard][:20]
    beats = [asyncio.ensure_future(live.beat(user, "s", G)) for user in users]
    await asyncio.sleep(0)
    beats[3].cancel()
    beats[7].cancel()
    answers = await asyncio.gather(*beats, return_exceptions=True)
    went = [index for index, answer in enumerate(answers) if isinstance(answer, asyncio.CancelledError)]
    assert went == [3, 7]
    assert all(answer.live for answer in answers if isinstance(answer, Beat))
    await live.close()


async def test_32_a_slow_subscriber_of_a_hot_game_skips_to_the_latest_in_bounded_memory(stage: LiveStage) -> None:
    await stage.recount()
    numbers = range(1, 101)
    async with stage.totals.subscribe(numbers) as slow:
        for user in range(1, 301):
            await stage.live.beat(user, "s", 1 + user % 100 if user % 10 == 0 else G)
            if user % 3 == 0:
                await stage.recount()
        await stage.recount()
        changed = await anext(slow)  # 101 recounts later, one set
        assert changed <= set(numbers)
        assert G in changed
        assert stage.totals.sessions(G) == 270
        waiting = asyncio.ensure_future(anext(slow))
        await asyncio.sleep(0)
        assert not waiting.done()  # nothing lay between
        waiting.cancel()
