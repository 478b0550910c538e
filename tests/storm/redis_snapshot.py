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
        """Everything as it was, in one moment: whoever writes meanwhile does so before it or after it."""
        pipeline = redis.client.pipeline(transaction=True)
        pipeline.flushall()
        for key, dump in self._dumps.items():
            pipeline.restore(key, 0, dump)
        await pipeline.execute()
