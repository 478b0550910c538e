"""The players of each game on each UTC day, distinct, as HyperLogLogs: a game's number of them only grows.

Heartbeats note who is new in a game today beside the sessions, in the user's shard. The recount's leader takes these
notes, counts them in with one call a game however many they are, so that no game's key is hot, publishes the numbers
with the live totals, and only then removes the notes. Counting in twice changes nothing, so a leader that died or lost
a reply in between costs only work.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from signals.live_sessions import LIVE_KEYS
from signals.redis import SharedRedis, script

TAKE = script("take_players")
COUNT = script("count_players")

SECONDS_A_DAY = 86_400
DAYS_KEPT = 2
#: Notes that one call takes, and users that one call counts in, at most: about a millisecond of Redis.
MAX_ITEMS = 1000
#: Games that are asked for in one go.
GAMES_AT_ONCE = 512

Note: TypeAlias = bytes  # day:game:user:session


class DayGame(NamedTuple):
    """A game, by its number, on a day since 1970, UTC."""

    day: int
    number: int


class Taken(NamedTuple):
    """Notes of a shard, none of a user who hides, and whether it may have more."""

    more: bool
    notes: list[Note]


def day_of(at_ms: int) -> int:
    """The UTC day of a moment in Unix milliseconds, counted since 1970."""
    return at_ms // (SECONDS_A_DAY * 1000)


def midnight_after(at_ms: int) -> int:
    """When the UTC day of a moment ends; both in Unix milliseconds."""
    return (day_of(at_ms) + 1) * SECONDS_A_DAY * 1000


class UniquePlayers:
    """What Redis knows of the players of a day.

    Args:
        redis: where it does.
    """

    def __init__(self, redis: SharedRedis) -> None:
        self._redis = redis

    async def take(self, shards: Collection[int], limit: int) -> dict[int, Taken]:
        """Notes of these shards that nobody has removed yet, by shard.

        Args:
            shards: which.
            limit: how many of a shard at most, 1 to 1,000.

        Raises:
            redis.exceptions.RedisError: they could not all be read.
        """
        calls = []
        for shard in shards:
            keys = LIVE_KEYS[shard]
            calls.append(self._redis.run(TAKE, [keys.games, keys.hidden, keys.new_players], [limit]))
        taken = await asyncio.gather(*calls)
        return {shard: Taken(bool(more), notes) for shard, (more, notes) in zip(shards, taken, strict=True)}

    async def count_in(self, origin: str, notes: Iterable[Note], now_ms: int) -> dict[DayGame, int]:
        """Count users in.

        Args:
            origin: of the totals that are published (`Publication.origin`): players of another store are not these.
            notes: who played what on which day.
            now_ms: by Redis's clock.

        Returns:
            How many players the games of these notes have by now.

        Raises:
            redis.exceptions.RedisError: some may have been counted in; doing it again is harmless.
        """
        users: defaultdict[DayGame, set[bytes]] = defaultdict(set)
        for note in notes:
            day, number, user, _ = note.split(b":", 3)
            users[DayGame(int(day), int(number))].add(user)
        games = list(users)
        counts: dict[DayGame, int] = {}
        for start in range(0, len(games), GAMES_AT_ONCE):
            part = games[start : start + GAMES_AT_ONCE]
            found = await asyncio.gather(*(self._count_one_in(origin, game, users[game], now_ms) for game in part))
            counts.update(zip(part, found, strict=True))
        return counts

    async def counts(self, origin: str, day: int, numbers: Sequence[int]) -> dict[int, int]:
        """How many players these games have on a day, by number.

        Raises:
            redis.exceptions.RedisError: they could not all be read.
        """
        counts: dict[int, int] = {}
        for start in range(0, len(numbers), GAMES_AT_ONCE):
            part = numbers[start : start + GAMES_AT_ONCE]
            calls = [self._redis.call("PFCOUNT", _key(origin, DayGame(day, number))) for number in part]
            counts.update(zip(part, await asyncio.gather(*calls), strict=True))
        return counts

    async def remove(self, notes: dict[int, list[Note]]) -> None:
        """Remove notes that were counted in, by shard.

        Raises:
            redis.exceptions.RedisError: some may be left; they are taken again.
        """
        calls = [self._redis.call("SREM", LIVE_KEYS[shard].new_players, *found) for shard, found in notes.items()]
        await asyncio.gather(*calls)

    async def _count_one_in(self, origin: str, game: DayGame, users: Collection[bytes], now_ms: int) -> int:
        seconds = max(1, (game.day + DAYS_KEPT) * SECONDS_A_DAY - now_ms // 1000)
        waiting, count = list(users), 0
        for start in range(0, len(waiting), MAX_ITEMS):
            part = waiting[start : start + MAX_ITEMS]
            count = await self._redis.run(COUNT, [_key(origin, game)], [seconds, *part])
        return count


def _key(origin: str, game: DayGame) -> str:
    """Its hash tag is the game and not the day: both days of a game are on one slot."""
    return f"up:{{{game.number}:{origin}}}:{game.day}"
