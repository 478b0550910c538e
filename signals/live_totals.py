"""Live totals of all games, held in this process's memory: reading them asks nobody."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import numpy as np
import structlog
from redis.exceptions import RedisError

from signals.change_feed import ChangeFeed, Changes
from signals.live_sessions import Clock
from signals.pace import Pace
from signals.published_totals import Publication, PublishedTotals, Read
from signals.redis import SharedRedis

log = structlog.get_logger(__name__)


class LiveTotals:
    """What the recount's leader published, fetched once an interval.

    Totals are known while they are younger than `stale_max_seconds`, also while Redis is away, and while Redis holds
    all that it should (see `Publication`). Newer totals are never followed by older ones.
    """

    def __init__(
        self,
        redis: SharedRedis,
        interval_ms: int,
        stale_max_seconds: float,
        *,
        clock_ms: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start unknown.

        Args:
            redis: where totals are published.
            interval_ms: time between two looks.
            stale_max_seconds: how old totals may be and still be shown.
            clock_ms: stands in for Redis's clock, in milliseconds; for tests.
            monotonic: this process's clock, in seconds.
        """
        self._published = PublishedTotals(redis, clock_ms=clock_ms)
        self._interval_ms = interval_ms
        self._stale_max_seconds = stale_max_seconds
        self._monotonic = monotonic
        self._counts: dict[int, tuple[int, int]] = {}
        self._shown = Publication()
        self._waiting = Publication()  # of another epoch than what is shown, and not yet believed
        self._settles_at_ms = 0
        self._counted_at = float("-inf")  # when the shown totals were true, by this process's clock
        self._was_known = False
        self._ranked: tuple[int, ...] | None = None
        self._feed = ChangeFeed()
        self._after_refresh: list[Callable[[], None]] = []

    @property
    def known(self) -> bool:
        """Whether there are totals to show."""
        shown = self._shown
        return (
            self._monotonic() - self._counted_at <= self._stale_max_seconds
            and shown.as_of_ms >= shown.known_from_ms
            and shown.as_of_ms >= self._settles_at_ms
        )

    @property
    def as_of(self) -> float | None:
        """When the totals were counted, in Unix seconds by Redis's clock; None while they are unknown."""
        return self._shown.as_of_ms / 1000 if self.known else None

    @property
    def subscribers(self) -> int:
        """How many subscribers there are."""
        return self._feed.subscribers

    def sessions(self, number: int) -> int | None:
        """Live sessions of a game; None while unknown."""
        return self._counts.get(number, (0, 0))[0] if self.known else None

    def people(self, number: int) -> int | None:
        """Distinct users among a game's live sessions; None while unknown."""
        return self._counts.get(number, (0, 0))[1] if self.known else None

    def ranked(self) -> tuple[int, ...]:
        """Numbers of the games that have sessions, most sessions first, then by number; empty while unknown."""
        if not self.known:
            return ()
        if self._ranked is None:
            numbers = np.fromiter(self._counts, dtype=np.int64, count=len(self._counts))
            sessions = np.array([sessions for sessions, _ in self._counts.values()], dtype=np.int64)
            self._ranked = tuple(numbers[np.lexsort((numbers, -sessions))].tolist())
        return self._ranked

    def subscribe(self, numbers: Collection[int]) -> Changes:
        """Changes of the games with these numbers: `async with` gives an async iterator of sets of changed numbers.

        At most one set a refresh; what a slow reader misses adds up to one set. All numbers are in it when totals
        become known or unknown.
        """
        return self._feed.subscribe(numbers)

    def after_refresh(self, call: Callable[[], None]) -> None:
        """Call this after each refresh, one that failed included, when the subscribers were told."""
        self._after_refresh.append(call)

    async def run(self) -> None:
        """Refresh once an interval, for ever. Redis being away is logged once and changes nothing else."""
        pace = Pace(self._interval_ms / 1000)
        away = False
        while True:
            try:
                await self.refresh()
            except (RedisError, OSError) as error:
                if not away:
                    log.warning("live_totals_not_refreshed", reason=str(error))
                away = True
            else:
                if away:
                    log.info("live_totals_refreshed_again")
                away = False
            await pace.tick()

    async def refresh(self) -> None:
        """Fetch what was published since the last time and tell the subscribers: one round trip.

        Raises:
            redis.exceptions.RedisError: it could not be fetched; subscribers are told where that makes totals unknown.
        """
        changed: set[int] = set()
        asked = self._monotonic()
        try:
            changed = self._take(await self._published.read(self._shown), asked)
        finally:
            if self.known != self._was_known:
                self._was_known = self.known
                self._feed.tell_all()
            elif changed and self.known:
                self._feed.tell(changed)
            for call in self._after_refresh:
                call()

    def _take(self, read: Read, asked: float) -> set[int]:
        found, shown = read.publication, self._shown
        if found is None or not self._follows(found):
            return set()
        if shown.origin and found.origin != shown.origin:
            self._settles_at_ms = found.settles_at_ms
        elif found.as_of_ms >= self._settles_at_ms:
            self._settles_at_ms = 0
        self._shown, self._waiting = found, Publication()
        self._counted_at = asked - max(0, read.now_ms - found.as_of_ms) / 1000
        rows = {number: (sessions, people) for part in read.counts for number, sessions, people in part.tolist()}
        if read.whole:
            rows = {number: (0, 0) for number in self._counts if number not in rows} | rows
        changed = {number for number, counts in rows.items() if self._counts.get(number, (0, 0)) != counts}
        for number in changed:
            if rows[number][0]:
                self._counts[number] = rows[number]
            else:
                self._counts.pop(number, None)
        if changed:
            self._ranked = None
        return changed

    def _follows(self, found: Publication) -> bool:
        """Whether a publication is newer than the one shown.

        Within an epoch the sequence says so. Another epoch may be that of a new leader, or what a rewound Redis
        remembers of an old one, and no clock can tell: Redis's may have been set back, or belong to another Redis now.
        But only a leader makes an epoch move, so another epoch is believed once it was seen to.
        """
        shown, waiting = self._shown, self._waiting
        if found.epoch == shown.epoch:
            return found.sequence > shown.sequence
        if not shown.epoch or (found.epoch == waiting.epoch and found.sequence > waiting.sequence):
            return True
        if found.epoch != waiting.epoch:
            self._waiting = found
        return False
