"""All of a Redis at one moment, to put back: what a failover to a replica that is behind looks like."""

from __future__ import annotations

import re
from collections.abc import Collection

from signals.redis import SharedRedis

#: What a node of a cluster holds is told by the hash tag of its keys.
_TAG = re.compile(rb"\{(.*?)\}")


def tag_of(key: bytes) -> bytes:
    """The hash tag of a key."""
    found = _TAG.search(key)
    return found[1] if found else key


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

    async def restore(self, redis: SharedRedis, tags: Collection[bytes] | None = None) -> None:
        """Everything as it was, in one moment: whoever writes meanwhile does so before it or after it.

        Args:
            redis: where to.
            tags: only the keys with these hash tags, as though one node of a cluster were behind; None is all.
        """
        pipeline = redis.client.pipeline(transaction=True)
        if tags is None:
            pipeline.flushall()
        else:
            gone = [key for key in await redis.call("KEYS", "*") if tag_of(key) in tags]
            if gone:
                pipeline.unlink(*gone)
        for key, dump in self._dumps.items():
            if tags is None or tag_of(key) in tags:
                pipeline.restore(key, 0, dump)
        if len(pipeline):
            await pipeline.execute()
