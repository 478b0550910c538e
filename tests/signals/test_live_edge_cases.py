"""Small inputs to live counts, and the right outcomes."""

from __future__ import annotations

import asyncio

from signals.live_sessions import Beat
from tests.signals.live_stage import TTL_SECONDS, LiveStage

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
    left = [key for key in await stage.redis.call("KEYS", "l[bguclqd]:*") if await stage.redis.call("EXISTS", key)]
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
