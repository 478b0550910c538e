"""A shard of live sessions counted from its sets, and held against the counts that the scripts keep beside them."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from signals.live_sessions import ENDED, LIVE_KEYS
from signals.redis import SharedRedis, script

REBUILD = script("rebuild", prelude="live_shard live_counts")


class ShardAudit(NamedTuple):
    """What a look at a shard found.

    `drifted` are the numbers of games that are counted otherwise than their sessions say, `users` how many users' games
    are. `strays` are sessions that only one of the two sets holds, so that they would never die, or never count.
    """

    sessions: int
    drifted: list[int]
    users: int
    strays: int

    @property
    def clean(self) -> bool:
        """Whether everything is as it should be."""
        return not (self.drifted or self.users or self.strays)


class LiveAudit:
    """Audits shards, one at a time.

    Args:
        redis: where they are.
    """

    def __init__(self, redis: SharedRedis) -> None:
        self._redis = redis

    async def look(self, shard: int) -> ShardAudit:
        """Take all of a shard at one moment and count it here, not in Redis.

        Raises:
            redis.exceptions.RedisError: it could not be read.
        """
        keys = LIVE_KEYS[shard]
        pipeline = self._redis.client.pipeline(transaction=True)
        for key in (keys.games, keys.users, keys.counts, keys.hidden):
            pipeline.hgetall(key)
        pipeline.zcard(keys.beats)
        found = await pipeline.execute()
        return await asyncio.to_thread(_compare, *found)

    async def rebuild(self, shard: int) -> int:
        """Count a shard anew in one step.

        Returns:
            How many of its games and users had been counted wrong.

        Raises:
            redis.exceptions.RedisError: it may or may not have been done; doing it again is harmless.
        """
        wrong: int = await self._redis.run(REBUILD, [*LIVE_KEYS[shard]], [f"rebuilt:{secrets.token_hex(8)}"])
        return wrong


def _compare(
    games: Mapping[bytes, bytes],
    users: Mapping[bytes, bytes],
    counts: Mapping[bytes, bytes],
    hidden: Mapping[bytes, bytes],
    beats: int,
) -> ShardAudit:
    of_user: dict[bytes, Counter[int]] = {}
    for session, held in games.items():
        number = int(held.rstrip(_LETTERS))
        if number != ENDED:
            of_user.setdefault(session.partition(b":")[0], Counter())[number] += 1
    sessions: Counter[int] = Counter()
    people: Counter[int] = Counter()
    for user, theirs in of_user.items():
        if int(hidden.get(user, b"0")) % 2 == 0:
            sessions.update(theirs)
            people.update(theirs.keys())
    held_counts = {int(number): tuple(map(int, held.split())) for number, held in counts.items()}
    numbers = sessions.keys() | held_counts.keys()
    drifted = [n for n in sorted(numbers) if held_counts.get(n, (0, 0)) != (sessions[n], people[n])]
    wrong = sum(_games(users.get(user, b"")) != of_user.get(user, Counter()) for user in users.keys() | of_user.keys())
    return ShardAudit(len(games), drifted, wrong, abs(len(games) - beats))


_LETTERS = bytes(range(ord("a"), ord("z") + 1))


def _games(text: bytes) -> Counter[int]:
    """The games of a user, as `lua/live_shard.lua` writes them."""
    pairs = (part.split(b":") for part in text.split(b";") if part)
    return Counter({int(number): int(sessions) for number, sessions in pairs})
