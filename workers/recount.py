"""The recount: by lease, one process counts the live sessions once an interval and publishes the totals.

What is published when Redis has lost sessions: a leader that read a shard before and finds it without any token, or one
that begins where totals were published and a shard has no token, knows that sessions were lost. It marks the totals as
too small until one heartbeat interval has passed, in which every client that is still there sends its next heartbeat.
Where nothing was ever published, counts are true at once; only processes that remember other totals wait as long.

A shard that does not know who is hidden is not counted: the leader loads it first, and until it can, nothing is
published (`workers.live_visibility`).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection

import numpy as np
import structlog
from redis.exceptions import RedisError

from graph.social_graph import GraphError, TruthUnavailableError
from signals.live_sessions import Clock, beat_interval_ms
from signals.live_shards import LiveShards, Reading
from signals.pace import Pace
from signals.published_totals import TAG, Publication, Published, PublishedTotals, Totals
from signals.redis import SharedRedis
from signals.shards import SHARDS
from signals.unique_players import midnight_after
from workers.lease import Lease
from workers.live_visibility import LiveVisibility
from workers.unique_players import UniqueCounts

log = structlog.get_logger(__name__)

LEASE_NAME = TAG
#: Dead leaders are followed within this and `ASK_SECONDS`.
LEASE_SECONDS = 2.0
RENEW_SECONDS = 0.6
ASK_SECONDS = 0.4


class Recount:
    """One process's part in the recount; any number of processes may run it."""

    def __init__(
        self,
        redis: SharedRedis,
        ttl_seconds: float,
        interval_ms: int,
        lease: Lease,
        visibility: LiveVisibility,
        *,
        shards: Collection[int] = range(SHARDS),
        clock_ms: Clock | None = None,
    ) -> None:
        """Prepare to lead.

        Args:
            redis: where live sessions are, and totals go.
            ttl_seconds: a session whose last heartbeat is this old is dead.
            interval_ms: time between two recounts.
            lease: named `LEASE_NAME`; only its holder counts and publishes.
            visibility: loads shards that do not know who is hidden.
            shards: which to count; fewer only where a test knows that the others are empty.
            clock_ms: stands in for Redis's clock, in milliseconds; for tests.

        Raises:
            ValueError: the lease has another name, so its key would not share the totals' slot.
        """
        if lease.name != LEASE_NAME:
            raise ValueError(f"the recount's lease is named {LEASE_NAME!r}, not {lease.name!r}")
        self._shards = LiveShards(redis, ttl_seconds, shards=shards, clock_ms=clock_ms)
        self._published = PublishedTotals(redis, clock_ms=clock_ms)
        self._interval_ms = interval_ms
        self._beat_interval_ms = beat_interval_ms(ttl_seconds)
        self._lease = lease
        self._visibility = visibility
        self._leading = asyncio.Event()
        self._term: int | None = None
        self._base: Publication | None = None  # the publication to build on; None: not known, look
        self._tried = (Publication(), 0, 0)  # the last publication, and the new and lost shards that it tells of
        self._unpublished: set[int] = set()
        self._new_shards = 0
        self._lost_shards = 0
        self._with_new_players: set[int] = set()
        self._players = UniqueCounts(redis, interval_ms)

    async def run(self) -> None:
        """Hold the lease or wait for it, and recount once an interval while it is held; for ever."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._hold_the_lease())
                tasks.create_task(self._recount_while_leading())
        finally:
            try:
                await self._lease.release()
            except (RedisError, OSError) as error:
                log.info("recount_lease_left", reason=str(error))  # it ends by itself

    async def lead(self) -> bool:
        """Renew the lease, or ask for it.

        Returns:
            Whether this process leads.

        Raises:
            redis.exceptions.RedisError: not known; until its lease is over, a leader goes on.
        """
        try:
            leads = await self._lease.renew() or await self._lease.acquire() is not None
        finally:
            if not self._lease.held:
                self._leading.clear()
        if leads and not self._leading.is_set():
            log.info("recount_leads", term=self._lease.token)
            self._leading.set()
        return leads

    async def recount(self) -> bool:
        """Count and publish, once.

        Returns:
            False where this process does not lead (any more).

        Raises:
            redis.exceptions.RedisError: nothing may have been published; the next recount makes up for it.
            GraphError: a shard has to be told who is hidden, and the truth cannot be read: nothing was published.
        """
        if not self._lease.held:
            return False
        if self._term != self._lease.token:
            await self._meet_the_truth()
            self._term, self._base = self._lease.token, None
        while (reading := await self._read()).not_loaded:
            if not self._lease.held:
                return False
            await self._visibility.load(reading.not_loaded)
        outcome = await self._publish(reading.as_of_ms)
        if outcome is Published.NOT_WHAT_STOOD:  # Redis was rewound or emptied below us: begin another epoch
            outcome = await self._publish(reading.as_of_ms)
        return outcome is Published.DONE

    async def _meet_the_truth(self) -> None:
        """At the start of a term, drop what shards hold of another truth."""
        try:
            await self._visibility.load(self._shards.shards)
        except TruthUnavailableError as error:
            log.info("hidden_users_not_loaded", reason=str(error))  # shards that know them are counted all the same

    async def _read(self) -> Reading:
        reading = await self._shards.read()
        self._unpublished |= reading.changed
        self._new_shards += reading.new_shards
        self._lost_shards += reading.lost_shards
        self._with_new_players |= reading.with_new_players
        return reading

    async def _publish(self, as_of_ms: int) -> Published:
        lost = self._lost_shards > 0
        counted: list[Totals] = []
        if self._base is None:
            stands = await self._published.read(Publication())
            self._settle_unknown(stands.publication)
            lost = self._lost_shards > 0
            base = stands.publication or Publication(
                origin=secrets.token_hex(8),
                settles_at_ms=as_of_ms + self._beat_interval_ms,
                players_settle_at_ms=midnight_after(as_of_ms),
            )
            lost = lost or (stands.publication is not None and self._new_shards > 0)
            counted = stands.counts
            players = {number: count for part in counted for number, *_, count in part.tolist() if count}
            self._players.begin(base.origin, base.as_of_ms, players)
            following = base._replace(epoch=secrets.token_hex(8), sequence=1)
        else:
            base = self._base
            following = base._replace(sequence=base.sequence + 1)

        await self._players.collect(base.origin, as_of_ms, self._with_new_players, self._shards.counts.live)
        self._with_new_players.clear()
        changes = (
            self._difference(counted) if self._base is None else self._totals(self._unpublished | self._players.changed)
        )
        following = following._replace(
            as_of_ms=as_of_ms,
            known_from_ms=_later(as_of_ms, base.known_from_ms, as_of_ms + self._beat_interval_ms, lost=lost),
            players_as_of_ms=self._players.as_of_ms,
            players_from_ms=_later(as_of_ms, base.players_from_ms, midnight_after(as_of_ms), lost=lost),
        )
        self._base = None  # until it is known what became of it
        self._tried = following, self._new_shards, self._lost_shards
        outcome = await self._published.publish(self._lease.key, self._lease.claim, base, following, changes)
        if outcome is Published.DONE:
            self._base = following
            self._unpublished.clear()
            self._tried = Publication(), 0, 0
            self._new_shards = self._lost_shards = 0
            await self._players.published()
        return outcome

    def _settle_unknown(self, stands: Publication | None) -> None:
        """Where the last publication stands though nobody said so, what it told of new and lost shards is told."""
        tried, new, lost = self._tried
        if stands is not None and (stands.epoch, stands.sequence) == (tried.epoch, tried.sequence):
            self._new_shards -= new
            self._lost_shards -= lost
        self._tried = Publication(), 0, 0

    def _totals(self, numbers: Collection[int]) -> Totals:
        counts = self._shards.counts.totals(numbers)
        players = [self._players.count(number) for number in counts[:, 0].tolist()]
        return np.column_stack((counts, np.array(players, dtype="<u4")))

    def _difference(self, published: list[Totals]) -> Totals:
        """What turns the published totals into those of the shards."""
        before = {number: counts for part in published for number, *counts in part.tolist()}
        now = self._totals(before.keys() | set(self._shards.counts.live()).union(self._players.numbers()))
        differs = [before.get(number, [0, 0, 0]) != counts for number, *counts in now.tolist()]
        return now[differs]

    async def _hold_the_lease(self) -> None:
        away = False
        while True:
            try:
                leads = await self.lead()
            except (RedisError, OSError) as error:
                leads = False
                if not away:  # once, and not with every try until Redis is back
                    log.warning("recount_lease_unknown", reason=str(error))
                away = True
            else:
                if away:
                    log.info("recount_lease_known_again", leads=leads)
                away = False
            await asyncio.sleep(RENEW_SECONDS if leads else ASK_SECONDS)

    async def _recount_while_leading(self) -> None:
        while True:
            await self._leading.wait()
            pace = Pace(self._interval_ms / 1000)
            failing = False
            while self._leading.is_set():
                try:
                    await self.recount()
                except (RedisError, OSError, GraphError) as error:
                    if not failing:
                        log.warning("recount_failed", reason=str(error))
                    failing = True
                else:
                    failing = False
                await pace.tick()
                if pace.skipped:
                    log.warning("recounts_skipped", count=pace.skipped)
                    pace.skipped = 0


def _later(as_of_ms: int, before_ms: int, settled_ms: int, *, lost: bool) -> int:
    """From when on counts are what they should be: `before_ms` as published last, `settled_ms` after a loss now."""
    if lost:
        return settled_ms
    return 0 if as_of_ms >= before_ms else min(before_ms, settled_ms)  # the clock may have been set back
