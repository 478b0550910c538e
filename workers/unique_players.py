"""How many distinct players each game has today, as the recount's leader knows it and publishes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

import structlog
from redis.exceptions import RedisError

from signals.redis import SharedRedis
from signals.shards import SHARDS
from signals.unique_players import MAX_ITEMS, Note, UniquePlayers, day_of

log = structlog.get_logger(__name__)

FEWEST_NOTES = 64
#: The share of a recount's interval that counting players in may take; where it took more, fewer are taken next time.
SHARE = 0.25
#: Games looked at again with each recount, round and round, and one shard: whatever should have been lost comes back.
GAMES_LOOKED_AT = 64


class UniqueCounts:
    """One leader's table of the day's players.

    Args:
        redis: where they are counted.
        interval_ms: time between two recounts.
    """

    def __init__(
        self, redis: SharedRedis, interval_ms: int, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._players = UniquePlayers(redis)
        self._budget_seconds = interval_ms / 1000 * SHARE
        self._monotonic = monotonic
        self._limit = FEWEST_NOTES
        self._of: tuple[str, int] | None = None  # the origin and the day that the table is of
        self._counts: dict[int, int] = {}
        self._met: set[int] = set()  # numbers of all games that had players, whenever
        self._rounds: list[int] = []
        self._taken: dict[int, list[Note]] = {}
        self._shards: set[int] = set()
        self._shards_with_more: set[int] = set()
        self._next_shard = 0
        self.behind = False  # the last try failed
        self.as_of_ms = 0  # when it was that one did not
        self.changed: set[int] = set()  # numbers whose count is another one than was published

    def count(self, number: int) -> int:
        """Players of a game today."""
        return self._counts.get(number, 0)

    def numbers(self) -> Collection[int]:
        """Numbers of the games that have players today."""
        return self._counts.keys()

    async def collect(
        self, origin: str, as_of_ms: int, shards: Iterable[int], known: Callable[[], Iterable[int]]
    ) -> None:
        """Count in who is new. Redis being away is logged, and the table stays as it is.

        Args:
            origin: of the totals that are published.
            as_of_ms: the recount's time.
            shards: that hold notes.
            known: numbers of games that may have players, beside those of the table.
        """
        self._next_shard = (self._next_shard + 1) % SHARDS
        self._shards.update(shards, [self._next_shard])
        self._taken = {}
        began, today = self._monotonic(), day_of(as_of_ms)
        try:
            if self._of != (origin, today):
                await self._begin(origin, today, known())
            await self._count_in(origin, today, as_of_ms)
            await self._look_again(origin, today)
        except (RedisError, OSError) as error:
            if not self.behind:
                log.warning("players_not_counted", reason=str(error))
            self.behind = True
        else:
            self.behind = False
            self.as_of_ms = as_of_ms
        if self._monotonic() - began > self._budget_seconds:
            self._limit = max(FEWEST_NOTES, self._limit // 2)
        elif self._shards_with_more:
            self._limit = min(MAX_ITEMS, self._limit * 2)

    def begin(self, origin: str, published_at_ms: int, counts: Mapping[int, int]) -> None:
        """Go on from what stands published, which lacks only players whose notes were not removed.

        Args:
            origin: of the totals.
            published_at_ms: their time.
            counts: their players, by game number, of games that have any.
        """
        self._counts = dict(counts)
        self._met.update(counts)
        self._of = origin, day_of(published_at_ms)

    async def published(self) -> None:
        """What was collected stands in the totals now: nobody has to count it in again.

        Raises:
            redis.exceptions.RedisError: it will be taken again.
        """
        self.changed.clear()
        taken, self._taken = self._taken, {}
        await self._players.remove({shard: notes for shard, notes in taken.items() if notes})
        # The others have no more, but for what came since: the next reading says so.
        self._shards.difference_update(taken.keys() - self._shards_with_more)

    async def _count_in(self, origin: str, today: int, as_of_ms: int) -> None:
        taken = await self._players.take(sorted(self._shards), self._limit)
        notes = [note for of_shard in taken.values() for note in of_shard.notes]
        for (day, number), count in (await self._players.count_in(origin, notes, as_of_ms)).items():
            self._met.add(number)
            if day == today:
                self._put(number, count)
        self._taken = {shard: of_shard.notes for shard, of_shard in taken.items()}
        self._shards_with_more = {shard for shard, of_shard in taken.items() if of_shard.more}

    async def _begin(self, origin: str, day: int, known: Iterable[int]) -> None:
        numbers = sorted(self._met.union(known))
        found = await self._players.counts(origin, day, numbers)
        for number, count in found.items():
            self._put(number, count)
        self._of = origin, day

    async def _look_again(self, origin: str, day: int) -> None:
        if not self._rounds:
            self._rounds = list(self._counts)
        part = self._rounds[-GAMES_LOOKED_AT:]
        for number, count in (await self._players.counts(origin, day, part)).items():
            self._put(number, count)
        del self._rounds[-GAMES_LOOKED_AT:]

    def _put(self, number: int, count: int) -> None:
        if self._counts.get(number, 0) != count:
            self.changed.add(number)
        if count:
            self._counts[number] = count
            self._met.add(number)
        else:
            self._counts.pop(number, None)
