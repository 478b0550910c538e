"""How far the consumers of the event log have come: what was written by some moment, and whether it was handled."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import redis.asyncio
from redis.exceptions import ResponseError

from events.event import PARTITIONS
from events.redis_streams import GROUP, stream_key

NOTHING = "0-0"


class Waiting(NamedTuple):
    """A partition with entries that are not handled: the last one given to a consumer, and how many of those given are
    not acknowledged. Two equal readings mean that nothing moved.
    """

    partition: int
    delivered: str
    pending: int


class EventProgress:
    """Looks at the event log from outside; changes nothing."""

    def __init__(self, client: redis.asyncio.Redis, *, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock

    async def ends(self) -> list[str]:
        """The id of the last entry ever written to each partition."""
        return [await self._end(partition) for partition in range(PARTITIONS)]

    async def waiting(self, ends: Sequence[str]) -> list[Waiting]:
        """The partitions in which an entry up to these ends is not acknowledged; empty once all are handled.

        A stream that is gone, or that ends before where it ended, waits for ever: what stood there may come again.
        """
        looks = [await self._waiting(partition, end) for partition, end in enumerate(ends)]
        return [found for found in looks if found is not None]

    async def oldest_seconds(self) -> float:
        """Age of the oldest entry that is not acknowledged, 0 where all are. By this machine's clock."""
        oldest = [found for partition in range(PARTITIONS) if (found := await self._oldest(partition)) is not None]
        return max(0.0, self._clock() - min(oldest) / 1000) if oldest else 0.0

    async def _end(self, partition: int) -> str:
        try:
            stream: Any = await self._client.xinfo_stream(stream_key(partition))
        except ResponseError as error:
            if "no such key" in str(error):
                return NOTHING
            raise
        return _text(stream["last-generated-id"])

    async def _waiting(self, partition: int, end: str) -> Waiting | None:
        if end == NOTHING:
            return None
        group = await self._group(partition)
        if group is None:
            return Waiting(partition, NOTHING, 0)
        delivered, pending = _text(group["last-delivered-id"]), int(group["pending"])
        if _order(delivered) < _order(end):
            return Waiting(partition, delivered, pending)
        if pending and await self._client.xpending_range(stream_key(partition), GROUP, min="-", max=end, count=1):
            return Waiting(partition, delivered, pending)
        return None

    async def _oldest(self, partition: int) -> int | None:
        """When the oldest entry that is not acknowledged was written, Unix milliseconds."""
        stream = stream_key(partition)
        if not await self._client.exists(stream):
            return None
        group = await self._group(partition)
        after = "-" if group is None else f"({_text(group['last-delivered-id'])}"
        first: Any = await self._client.xrange(stream, min=after, count=1)
        ids = [entry_id for entry_id, _ in first or ()]
        if group is not None and int(group["pending"]):
            pending = await self._client.xpending_range(stream, GROUP, min="-", max="+", count=1)
            ids += [entry["message_id"] for entry in pending]
        return min((_order(_text(entry_id))[0] for entry_id in ids), default=None)

    async def _group(self, partition: int) -> dict[str, Any] | None:
        try:
            groups = await self._client.xinfo_groups(stream_key(partition))
        except ResponseError as error:
            if "no such key" in str(error):
                return None
            raise
        return next((group for group in groups if _text(group["name"]) == GROUP), None)


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
