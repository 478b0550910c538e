"""Live sessions from heartbeat to total: writers, leaders and readers on one Redis and one clock."""

from __future__ import annotations

from collections.abc import Collection

from signals.hidden_users import HiddenUsers
from signals.live_sessions import LiveSessions
from signals.live_totals import LiveTotals
from signals.published_totals import Publication, PublishedTotals
from signals.redis import SharedRedis
from signals.shards import SHARDS
from tests.signals.manual_clock import ManualClock
from tests.signals.plain_users import PlainUsers
from workers.lease import Lease
from workers.live_visibility import LiveVisibility
from workers.recount import LEASE_NAME, Recount

TTL_SECONDS = 60
STALE_MAX_SECONDS = 60


class LiveStage:
    """One writer, one leader and one reader; more can be made."""

    def __init__(self, redis: SharedRedis) -> None:
        self.redis = redis
        self.clock = ManualClock()
        self.users = PlainUsers()
        self.visibility = LiveVisibility(self.users, HiddenUsers(redis))
        self.live = LiveSessions(redis, TTL_SECONDS, gather_seconds=0, clock_ms=self.clock.ms)
        self.leader = self.new_leader()
        self.totals = self.new_reader()

    def new_leader(self, redis: SharedRedis | None = None, *, shards: Collection[int] = range(SHARDS)) -> Recount:
        """Another process that may lead. Its lease is long: a test says when one ends."""
        redis = redis or self.redis
        lease = Lease(redis, LEASE_NAME, 3600)
        visibility = LiveVisibility(self.users, HiddenUsers(redis))
        return Recount(redis, TTL_SECONDS, 1000, lease, visibility, shards=shards, clock_ms=self.clock.ms)

    def new_reader(self, redis: SharedRedis | None = None) -> LiveTotals:
        """Another web process's table."""
        return LiveTotals(
            redis or self.redis,
            1000,
            STALE_MAX_SECONDS,
            clock_ms=self.clock.ms,
            monotonic=self.clock.monotonic,
        )

    async def hide(self, user: int, hidden: bool = True) -> None:
        """A user hides or shows again, and the worker has heard of it."""
        self.users.change(user, hidden=hidden)
        await self.visibility.carry([user])

    async def recount(self) -> None:
        """A recount, and every process has seen it."""
        assert await self.leader.lead()
        assert await self.leader.recount()
        await self.totals.refresh()

    async def counts(self, number: int) -> tuple[int | None, int | None]:
        """Sessions and people of a game as of now."""
        await self.recount()
        return self.totals.sessions(number), self.totals.people(number)

    async def end_the_lease(self) -> None:
        """As if its ttl had passed without the holder noticing."""
        await self.redis.call("DEL", f"lease:{{{LEASE_NAME}}}")

    async def published(self) -> dict[int, tuple[int, int]]:
        """All that is published, by the whole."""
        read = await PublishedTotals(self.redis, clock_ms=self.clock.ms).read(Publication())
        rows = [row for part in read.counts for row in part.tolist()]
        return {number: (sessions, people) for number, sessions, people, _ in rows if sessions or people}

    async def published_players(self) -> dict[int, int]:
        """All numbers of players of the day that are published."""
        read = await PublishedTotals(self.redis, clock_ms=self.clock.ms).read(Publication())
        return {number: players for part in read.counts for number, _, _, players in part.tolist() if players}
