"""All of a Redis at one moment, to put back: what a failover to a replica that is behind looks like."""

from __future__ import annotations

from signals.redis import SharedRedis


class RedisSnapshot:
    """Every key and its value."""

    def __init__(self, dumps: dict[bytes, bytes]) -> None:
        self._dumps = dumps

    @classmethod
    async def take(cls, redis: SharedRedis) -> RedisSnapshot:
        """What the Redis holds now."""
        keys: list[bytes] = await redis.call("KEYS", "*")
        calls = [redis.call("DUMP", key) for key in keys]
        return cls({key: await dump for key, dump in zip(keys, calls, strict=True)})

    async def restore(self, redis: SharedRedis) -> None:
        """Everything as it was."""
        calls = [redis.call("FLUSHALL")]
        calls += [redis.call("RESTORE", key, 0, dump) for key, dump in self._dumps.items()]
        for call in calls:
            await call
