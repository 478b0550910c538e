"""What a Redis loses: everything, its last moments, or as much of one node of a cluster."""

from __future__ import annotations

from random import Random

from signals.redis import SharedRedis
from tests.storm.redis_snapshot import RedisSnapshot, tag_of

#: Moments that are remembered; a replica is not further behind.
SNAPSHOTS = 3


class RedisLosses:
    """Takes snapshots, puts them back, and loses everything.

    Args:
        redis: which.
        random: chooses what is lost.
        nodes: whether one node alone may lose something.
    """

    def __init__(self, redis: SharedRedis, random: Random, *, nodes: bool) -> None:
        self._redis = redis
        self._random = random
        self._nodes = nodes
        self._snapshots: list[tuple[RedisSnapshot, int]] = []

    async def remember(self, now: int) -> None:
        """What there is now may come back."""
        self._snapshots = [*self._snapshots[1 - SNAPSHOTS :], (await RedisSnapshot.take(self._redis), now)]

    async def rewind(self, free: int) -> int | None:
        """Put a snapshot back. Returns of when it is, None where there is none."""
        if not self._snapshots:
            return None
        snapshot, then = self._random.choice(self._snapshots) if self._nodes else self._snapshots[-1]
        await snapshot.restore(self._redis, await self._node() if self._nodes and free % 2 == 0 else None)
        return then

    async def lose(self, free: int) -> None:
        """Lose everything, the scripts too."""
        if self._nodes and free % 2:
            await RedisSnapshot({}).restore(self._redis, await self._node())
        else:
            await self._redis.call("FLUSHALL")
        await self._redis.call("SCRIPT", "FLUSH")

    async def _node(self) -> set[bytes]:
        """What a node might hold: the keys of some hash tags."""
        tags = sorted({tag_of(key) for key in await self._redis.call("KEYS", "*")})
        return {tag for tag in tags if self._random.random() < 0.5}
