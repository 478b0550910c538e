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
from signals.unique_players import midnight_after

log = structlog.get_logger(__name__)

_NOBODY = (0, 0, 0)


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
        self._counts: dict[int, tuple[int, int, int]] = {}  # sessions, people, players of the day
        self._shown = Publication()
        self._waiting = Publication()  # of another epoch than what is shown, and not yet believed
        self._settles_at_ms = 0
        self._players_settle_at_ms = 0
        self._counted_at = float("-inf")  # when the shown totals were true, by this process's clock
        self._was_known = self._players_were_known = False
        self._ranked: tuple[int, ...] | None = None
        self._feed = ChangeFeed()  # of sessions and people
        self._players_feed = ChangeFeed()  # of players of the day as well
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
        return self._feed.subscribers + self._players_feed.subscribers

    def sessions(self, number: int) -> int | None:
        """Live sessions of a game; None while unknown."""
        return self._counts.get(number, _NOBODY)[0] if self.known else None

    def people(self, number: int) -> int | None:
        """Distinct users among a game's live sessions; None while unknown."""
        return self._counts.get(number, _NOBODY)[1] if self.known else None

    @property
    def players_known(self) -> bool:
        """Whether the numbers of the day's players are known."""
        shown = self._shown
        return (
            self.known
            and shown.as_of_ms >= max(shown.players_from_ms, self._players_settle_at_ms)
            and abs(shown.as_of_ms - shown.players_as_of_ms) <= self._stale_max_seconds * 1000
        )

    def players_today(self, number: int) -> int | None:
        """Distinct users who played a game on the UTC day of the totals (standard error 0.81 %); None while unknown."""
        return self._counts.get(number, _NOBODY)[2] if self.players_known else None

    def ranked(self) -> tuple[int, ...]:
        """Numbers of the games that have sessions, most sessions first, then by number; empty while unknown."""
        if not self.known:
            return ()
        if self._ranked is None:
            live = [(number, counts[0]) for number, counts in self._counts.items() if counts[0]]
            numbers, sessions = np.array(live, dtype=np.int64).reshape(-1, 2).T
            self._ranked = tuple(numbers[np.lexsort((numbers, -sessions))].tolist())
        return self._ranked

    def subscribe(self, numbers: Collection[int], *, players: bool = False) -> Changes:
        """Changes of the games with these numbers: `async with` gives an async iterator of sets of changed numbers.

        At most one set a refresh; what a slow reader misses adds up to one set. All numbers are in it when totals
        become known or unknown. With `players`, a game whose players of the day changed is in it as well.
        """
        return (self._players_feed if players else self._feed).subscribe(numbers)

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
        with_players: set[int] = set()
        asked = self._monotonic()
        try:
            changed, with_players = self._take(await self._published.read(self._shown), asked)
        finally:
            were, self._was_known = self._was_known, self.known
            players_were, self._players_were_known = self._players_were_known, self.players_known
            if were != self._was_known:
                self._feed.tell_all()
            elif changed and self._was_known:
                self._feed.tell(changed)
            if (were, players_were) != (self._was_known, self._players_were_known):
                self._players_feed.tell_all()
            elif with_players and self._was_known:
                self._players_feed.tell(with_players)
            for call in self._after_refresh:
                call()

    def _take(self, read: Read, asked: float) -> tuple[set[int], set[int]]:
        """Numbers whose sessions or people changed, and those whose players of the day did too."""
        found, shown = read.publication, self._shown
        if found is None or not self._follows(found):
            return set(), set()
        if shown.origin and found.origin != shown.origin:
            self._settles_at_ms = found.settles_at_ms
            self._players_settle_at_ms = found.players_settle_at_ms
        else:
            if found.as_of_ms >= self._settles_at_ms:
                self._settles_at_ms = 0
            if not found.as_of_ms < self._players_settle_at_ms <= midnight_after(found.as_of_ms):
                self._players_settle_at_ms = 0  # midnight, or the clock was set back over one
        self._shown, self._waiting = found, Publication()
        self._counted_at = asked - max(0, read.now_ms - found.as_of_ms) / 1000
        rows: dict[int, tuple[int, int, int]] = {
            number: (sessions, people, players)
            for part in read.counts
            for number, sessions, people, players in part.tolist()
        }
        if read.whole:
            rows = {number: _NOBODY for number in self._counts if number not in rows} | rows
        with_players = {number for number, counts in rows.items() if self._counts.get(number, _NOBODY) != counts}
        changed = {n for n in with_players if self._counts.get(n, _NOBODY)[:2] != rows[n][:2]}
        for number in with_players:
            if any(rows[number]):
                self._counts[number] = rows[number]
            else:
                self._counts.pop(number, None)
        if changed:
            self._ranked = None
        return changed, with_players

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
