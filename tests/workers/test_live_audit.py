"""The audit of live counts: nothing to find while scripts do their work, and whatever was broken is told and mended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from signals.live_audit import LiveAudit
from signals.live_sessions import LIVE_KEYS, LiveKeys
from signals.redis import Argument, SharedRedis
from signals.shards import SHARDS, shard_of
from tests.signals.live_stage import LiveStage
from tests.waiting import until
from workers.grace import finish
from workers.lease import Lease
from workers.live_audit import LiveCountsAudit
from workers.recount import LEASE_NAME

G, H = 7, 8
SHARD = shard_of(1)
KEYS = LIVE_KEYS[SHARD]


@pytest.fixture
async def stage(shared_redis: SharedRedis) -> LiveStage:
    """A user in two games, another of the same shard in one, and one who hides."""
    stage = LiveStage(shared_redis)
    other, hides = [user for user in range(2, 1000) if shard_of(user) == SHARD][:2]
    await stage.live.beat(1, "a", G)
    await stage.live.beat(1, "b", G)
    await stage.live.beat(1, "c", H)
    await stage.live.beat(other, "s", G)
    await stage.live.beat(hides, "s", G)
    await stage.live.end(1, "b")
    assert await stage.counts(G) == (3, 3)
    await stage.hide(hides)
    assert await stage.counts(G) == (2, 2)
    return stage


def audit_of(stage: LiveStage, pause_seconds: float = 0.0) -> LiveCountsAudit:
    return LiveCountsAudit(stage.redis, Lease(stage.redis, LEASE_NAME, 60), pause_seconds=pause_seconds)


async def test_what_the_scripts_keep_is_what_the_sets_say(stage: LiveStage) -> None:
    found = [await LiveAudit(stage.redis).look(shard) for shard in range(SHARDS)]
    assert all(shard.clean for shard in found)
    assert sum(shard.sessions for shard in found) == 5  # the ended one stays as a mark


async def test_a_shard_that_is_rebuilt_though_nothing_is_wrong_stays_as_it_is(stage: LiveStage) -> None:
    assert await LiveAudit(stage.redis).rebuild(SHARD) == 0
    assert await stage.counts(G) == (2, 2)
    assert await stage.counts(H) == (1, 1)


BREAKS: dict[str, Callable[[LiveKeys], tuple[Argument, ...]]] = {
    "a count is too high": lambda keys: ("HSET", keys.counts, G, "12 9"),
    "a count is lost": lambda keys: ("HDEL", keys.counts, G),
    "a count is below 0": lambda keys: ("HSET", keys.counts, H, "-1 -1"),
    "a game that nobody is in": lambda keys: ("HSET", keys.counts, 99, "1 1"),
    "a user's games are wrong": lambda keys: ("HSET", keys.users, 1, f";{G}:5;"),
    "a user who has no session": lambda keys: ("HSET", keys.users, 4242, f";{G}:1;"),
    "a session that would never die": lambda keys: ("ZREM", keys.beats, "1:a"),
    "a heartbeat of no session": lambda keys: ("HDEL", keys.games, "1:a"),
}


@pytest.mark.parametrize("what", BREAKS)
async def test_what_was_broken_is_found_told_and_mended(stage: LiveStage, what: str) -> None:
    audit = audit_of(stage)
    await audit.audit(SHARD)
    assert (audit.shards_audited, audit.drift_games) == (1, 0)
    await stage.redis.call(*BREAKS[what](KEYS))
    with capture_logs() as logs:
        await audit.audit(SHARD)
    assert audit.drift_games >= 1
    assert [line["event"] for line in logs] == ["live_counts_drifted"]
    assert (await LiveAudit(stage.redis).look(SHARD)).clean
    lost_session = what in ("a session that would never die", "a heartbeat of no session")
    assert await stage.counts(G) == ((1, 1) if lost_session else (2, 2))
    assert await stage.counts(H) == (1, 1)
    assert await stage.counts(99) == (0, 0)


async def test_totals_that_readers_have_follow_and_stay_known(stage: LiveStage) -> None:
    await stage.redis.call("HSET", KEYS.counts, G, "12 9")
    await stage.redis.call("SADD", KEYS.changed, G)
    assert await stage.counts(G) == (12, 9)
    await audit_of(stage).audit(SHARD)
    assert await stage.counts(G) == (2, 2)


async def test_who_does_not_lead_does_not_audit(stage: LiveStage) -> None:
    await stage.end_the_lease()
    audit = audit_of(stage)
    leads = LiveCountsAudit(stage.redis, lease := Lease(stage.redis, LEASE_NAME, 60), pause_seconds=0)
    assert await lease.acquire() is not None
    jobs = [asyncio.create_task(one.run()) for one in (audit, leads)]
    await until(lambda: leads.shards_audited > SHARDS)  # all of them, and round again
    for job in jobs:
        await finish(job, 0)
    assert audit.shards_audited == 0
    assert leads.drift_games == 0
