"""The recount job: one leader, whom another follows, and what each may publish."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest
import structlog
from redis.exceptions import ConnectionError as RedisConnectionError

from signals.hidden_users import HiddenUsers
from signals.live_sessions import LIVE_KEYS, LiveSessions
from signals.live_shards import DROP_LIMIT, LiveShards
from signals.live_totals import LiveTotals
from signals.published_totals import TOTALS_KEYS, Publication, PublishedTotals
from signals.redis import Argument, Reply, Script, SharedRedis
from tests.signals.live_stage import TTL_SECONDS, LiveStage
from tests.signals.over_redis import OverRedis
from tests.signals.plain_users import PlainUsers
from tests.waiting import until
from workers import recount
from workers.grace import finish
from workers.lease import Lease
from workers.live_visibility import LiveVisibility
from workers.recount import LEASE_NAME, LEASE_SECONDS, Recount

G, H = 7, 8


@pytest.fixture
def stage(shared_redis: SharedRedis) -> LiveStage:
    return LiveStage(shared_redis)


def nobody_hides(redis: SharedRedis) -> LiveVisibility:
    return LiveVisibility(PlainUsers(), HiddenUsers(redis))


async def stands(stage: LiveStage) -> Publication | None:
    return (await PublishedTotals(stage.redis).read(Publication())).publication


async def test_only_the_holder_of_the_lease_recounts(stage: LiveStage) -> None:
    other = stage.new_leader()
    await stage.recount()
    before = await stands(stage)
    assert not await other.lead()
    assert not await other.recount()
    assert await stands(stage) == before


async def test_a_deposed_leader_cannot_publish(stage: LiveStage) -> None:
    """It has not noticed yet, counts, and is refused; what the new one published stands."""
    old, new = stage.leader, stage.new_leader()
    await stage.live.beat(1, "s", G)
    await stage.recount()
    await stage.end_the_lease()
    assert await new.lead()
    assert await new.recount()
    published = await stands(stage)
    await stage.live.beat(2, "s", G)
    assert not await old.recount()
    assert await stands(stage) == published
    assert await new.recount()
    assert await stage.published() == {G: (2, 2)}


async def test_a_deposed_leader_cannot_publish_what_it_counted_before(stage: LiveStage) -> None:
    """It stalls between counting and publishing, and another leads meanwhile."""

    class Stalls(OverRedis):
        published = asyncio.Event()

        async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
            if script.name == "publish_totals":
                await self.published.wait()
            return await super().run(script, keys, args)

    stalls = Stalls(stage.redis)
    old, new = stage.new_leader(stalls), stage.new_leader()
    await stage.live.beat(1, "s", G)
    assert await old.lead()
    late = asyncio.create_task(old.recount())
    await asyncio.sleep(0.02)
    await stage.end_the_lease()
    await stage.live.beat(2, "s", G)
    assert await new.lead()
    assert await new.recount()
    stalls.published.set()
    assert not await late
    assert await stage.published() == {G: (2, 2)}


async def test_an_older_recount_of_a_leader_who_leads_again_is_not_published_over_newer_ones(stage: LiveStage) -> None:
    other = stage.new_leader()
    await stage.live.beat(1, "s", G)
    await stage.recount()
    await stage.end_the_lease()
    assert await other.lead()
    await stage.live.beat(1, "s", H)
    assert await other.recount()
    await stage.end_the_lease()
    await stage.recount()
    assert await stage.published() == {H: (1, 1)}


async def test_two_readers_of_the_shards_cost_each_other_only_work(stage: LiveStage) -> None:
    await stage.visibility.load()
    zombie = LiveShards(stage.redis, TTL_SECONDS, clock_ms=stage.clock.ms)
    for user in range(1, 30):
        await stage.live.beat(user, "s", G)
        await zombie.read()
        assert await stage.counts(G) == (user, user)
        await stage.live.beat(user, "s", H)
        await zombie.read()
        await stage.live.beat(user, "s", G)


async def test_a_lost_reply_costs_one_whole_read(stage: LiveStage) -> None:
    class Loses(OverRedis):
        lose = False

        async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
            reply = await super().run(script, keys, args)
            if self.lose and script.name == "recount" and reply[2]:
                raise RedisConnectionError("reply lost")
            return reply

    loses = Loses(stage.redis)
    stage.leader = stage.new_leader(loses)
    await stage.live.beat(1, "s", G)
    await stage.recount()
    await stage.live.beat(1, "s", H)
    loses.lose = True
    with pytest.raises(RedisConnectionError):
        await stage.leader.recount()
    loses.lose = False
    assert await stage.counts(G) == (0, 0)
    assert await stage.counts(H) == (1, 1)


async def test_a_publication_whose_outcome_is_unknown_is_made_good(stage: LiveStage) -> None:
    class Loses(OverRedis):
        lose = ""

        async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
            if script.name == "publish_totals" and self.lose:
                if self.lose == "reply":
                    await super().run(script, keys, args)
                raise RedisConnectionError("outcome unknown")
            return await super().run(script, keys, args)

    for lost in ("reply", "call"):
        loses = Loses(stage.redis)
        await stage.end_the_lease()
        stage.leader = stage.new_leader(loses)
        await stage.live.beat(1, "s", G)
        await stage.recount()
        await stage.live.beat(1, "s", H)
        loses.lose = lost
        with pytest.raises(RedisConnectionError):
            await stage.leader.recount()
        loses.lose = ""
        await stage.live.beat(2, "s", H)
        await stage.recount()
        assert await stage.published() == {H: (2, 2)}
        await stage.live.end(2, "s")
        stage.clock.advance(TTL_SECONDS * 1000)


async def test_more_dead_than_one_call_drops_are_gone_in_one_recount(stage: LiveStage) -> None:
    dead = DROP_LIMIT * 3 + 1
    for _ in range(2):
        await asyncio.gather(*(stage.live.beat(1, f"s{index}", G) for index in range(dead)))
        assert await stage.counts(G) == (dead, 1)
        stage.clock.advance(TTL_SECONDS * 1000)
        assert await stage.counts(G) == (0, 0)


async def test_beats_ahead_of_a_clock_that_was_set_back_die_one_ttl_from_then(stage: LiveStage) -> None:
    ahead = DROP_LIMIT * 2 + 1
    await asyncio.gather(*(stage.live.beat(1, f"s{index}", G) for index in range(ahead)))
    stage.clock.step(-3_600_000)
    assert await stage.counts(G) == (ahead, 1)
    stage.clock.advance(TTL_SECONDS * 1000 - 1)
    assert await stage.counts(G) == (ahead, 1)
    stage.clock.advance(1)
    assert await stage.counts(G) == (0, 0)


async def test_a_recount_in_which_nothing_changed_writes_to_no_shard(stage: LiveStage) -> None:
    await stage.live.beat(1, "s", G)
    await stage.recount()
    watch = stage.redis.client.pipeline()
    await watch.watch(*(key for keys in LIVE_KEYS for key in keys))
    await stage.recount()
    watch.multi()  # type: ignore[no-untyped-call]  # redis-py leaves it without types
    watch.ping()
    assert await watch.execute()  # none of the watched keys was touched
    await watch.reset()  # type: ignore[no-untyped-call]  # as above


async def test_an_idle_recount_asks_for_what_changed_only(stage: LiveStage) -> None:
    await asyncio.gather(*(stage.live.beat(user, "s", user) for user in range(1, 501)))
    await stage.visibility.load()
    shards = LiveShards(stage.redis, TTL_SECONDS, clock_ms=stage.clock.ms)
    assert (await shards.read()).changed == set(range(1, 501))
    assert (await shards.read()).changed == set()
    await stage.live.beat(3, "s", 4)
    assert (await shards.read()).changed == {3, 4}


async def test_a_foreign_lease_is_refused(shared_redis: SharedRedis) -> None:
    with pytest.raises(ValueError, match="lease is named"):
        Recount(shared_redis, 60, 1000, Lease(shared_redis, "other", 2), nobody_hides(shared_redis))


async def test_the_job_publishes_each_interval_and_releases_its_lease_when_stopped(shared_redis: SharedRedis) -> None:
    live = LiveSessions(shared_redis, TTL_SECONDS)
    totals = LiveTotals(shared_redis, 20, 60)
    lease = Lease(shared_redis, LEASE_NAME, 2)
    recount = Recount(shared_redis, TTL_SECONDS, 20, lease, nobody_hides(shared_redis))
    job = asyncio.create_task(recount.run())
    reading = asyncio.create_task(totals.run())
    await live.beat(1, "s", G)
    await until(lambda: totals.sessions(G) == 1)
    await live.end(1, "s")
    await until(lambda: totals.sessions(G) == 0)
    job.cancel()
    reading.cancel()
    await asyncio.wait([job, reading])
    assert await shared_redis.call("EXISTS", f"lease:{{{LEASE_NAME}}}") == 0
    await live.close()


class AwayAtFirst(Lease):
    """A lease whose Redis answers from the sixth time on."""

    asked = 0

    async def acquire(self) -> int | None:
        self.asked += 1
        if self.asked <= 5:
            raise RedisConnectionError("away")
        return await super().acquire()


async def test_a_redis_that_is_away_is_told_once(shared_redis: SharedRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recount, "ASK_SECONDS", 0.01)
    lease = AwayAtFirst(shared_redis, LEASE_NAME, LEASE_SECONDS)
    with structlog.testing.capture_logs() as told:
        job = asyncio.create_task(Recount(shared_redis, TTL_SECONDS, 20, lease, nobody_hides(shared_redis)).run())
        await until(lambda: lease.held)
        await until(lambda: any(line["event"] == "recount_lease_known_again" for line in told))
        await finish(job, 0)
    of_the_lease = [line["event"] for line in told if line["event"].startswith("recount_lease")]
    assert of_the_lease == ["recount_lease_unknown", "recount_lease_known_again"]


async def test_another_takes_over_within_3_s_of_a_kill(shared_redis: SharedRedis, redis_url: str) -> None:
    live = LiveSessions(shared_redis, TTL_SECONDS)
    totals = LiveTotals(shared_redis, 100, 60)
    await live.beat(1, "s", G)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.workers.recount_process", redis_url, cwd=Path(__file__).parents[2]
    )
    job: asyncio.Task[None] | None = None
    try:

        async def published_by_it() -> bool:
            await totals.refresh()
            return totals.sessions(G) == 1

        await until(published_by_it)
        lease = Lease(shared_redis, LEASE_NAME, LEASE_SECONDS)
        own = Recount(shared_redis, TTL_SECONDS, 100, lease, nobody_hides(shared_redis))
        job = asyncio.create_task(own.run())
        await asyncio.sleep(0)
        process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        await process.wait()
        await live.beat(2, "s", G)

        async def published_by_this() -> bool:
            return await LiveStage(shared_redis).published() == {G: (2, 2)}

        await until(published_by_this)
        assert time.monotonic() - killed < 3
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        if job is not None:
            job.cancel()
            await asyncio.wait([job])
    await live.close()


async def test_totals_that_are_rewound_alone_are_published_anew(stage: LiveStage) -> None:
    """On a cluster their node may fail over while those of the shards do not: the leader finds another base there."""
    for user, number in ((1, G), (2, G), (3, H)):
        await stage.live.beat(user, "s", number)
    await stage.recount()
    dumps = {key: await stage.redis.call("DUMP", key) for key in TOTALS_KEYS}
    await stage.live.beat(3, "s", G)
    await stage.recount()
    await stage.recount()
    for key, dump in dumps.items():
        await stage.redis.call("RESTORE", key, 0, dump, "REPLACE")
    for _ in range(2):
        await stage.recount()
        assert await stage.published() == {G: (3, 3)}
        assert (stage.totals.sessions(G), stage.totals.sessions(H)) == (3, 0)


async def test_recounts_that_overrun_their_interval_are_skipped_and_never_pile_up(shared_redis: SharedRedis) -> None:
    """One takes three and a half intervals: of its turns every fourth is taken, and never two at once."""

    class Slow(OverRedis):
        running = most = done = 0

        async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
            if script.name != "publish_totals":
                return await super().run(script, keys, args)
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.07)
            try:
                return await super().run(script, keys, args)
            finally:
                self.running -= 1
                self.done += 1

    slow = Slow(shared_redis)
    recounts = Recount(slow, TTL_SECONDS, 20, Lease(slow, LEASE_NAME, 60), nobody_hides(slow))
    with structlog.testing.capture_logs() as told:
        began = time.monotonic()
        job = asyncio.create_task(recounts.run())
        await until(lambda: slow.done >= 6)
        turns = (time.monotonic() - began) / 0.02
        await finish(job, 0)
    assert slow.most == 1
    skipped = sum(line["count"] for line in told if line["event"] == "recounts_skipped")
    assert 3 * 5 <= skipped <= turns - 5
