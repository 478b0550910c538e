"""The event log on Redis Streams: a stream a partition, one consumer group, at least once.

Keys, each partition on a hash tag of its own: `ev:{eN}` the stream, one entry an event, field `e` and in `t` the id of
its truth; `ef:{eN}` a hash of entry id to the number of times its handling failed; `mk:{eN}` what its publisher wrote
last (`events.publisher`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import redis.asyncio
from redis.exceptions import ResponseError

from events.event import PARTITIONS, Event

GROUP = "fan-out"
APPENDED_AT_ONCE = 1_000
#: XINFO GROUPS cannot always say how much is left to deliver; then it is counted, up to here.
COUNTED_AT_MOST = 10_000

_TIDY = (Path(__file__).parent / "lua" / "tidy.lua").read_text()


def stream_key(partition: int) -> str:
    """The key of a partition's stream."""
    return f"ev:{{e{partition}}}"


def failures_key(partition: int) -> str:
    """The key of how often the handling of a partition's entries failed."""
    return f"ef:{{e{partition}}}"


class Delivery(NamedTuple):
    """An entry given to one consumer, who has to acknowledge it.

    `data` is the event as it was written; `truth_id` that of the truth it is an event of, empty where nobody said.
    """

    id: str
    data: bytes
    truth_id: str = ""


class Depth(NamedTuple):
    """How far consumers are behind in a partition: entries not given to any, and given but not acknowledged."""

    undelivered: int
    pending: int


class EventLog:
    """Where events are written, and where consumers for the partitions come from.

    Args:
        client: a client whose socket timeout is longer than any `block_ms` its consumers wait for. Each partition
            that is being read takes a connection of its pool.
    """

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client = client

    async def append(self, events: Sequence[Event]) -> None:
        """Write events, each to its user's partition, in their order.

        Raises:
            redis.exceptions.RedisError: any part may have been written. Writing all again is harmless.
        """
        for start in range(0, len(events), APPENDED_AT_ONCE):
            pipeline = self._client.pipeline(transaction=False)
            for event in events[start : start + APPENDED_AT_ONCE]:
                pipeline.xadd(stream_key(event.partition), {"e": event.encode()})
            await pipeline.execute()

    def partition(self, number: int, consumer: str) -> Partition:
        """A partition as the named consumer reads it."""
        return Partition(self._client, number, consumer)

    async def depths(self) -> list[Depth]:
        """How far consumers are behind, a partition each."""
        return [await self._depth(stream_key(number)) for number in range(PARTITIONS)]

    async def _depth(self, stream: str) -> Depth:
        if not await self._client.exists(stream):
            return Depth(0, 0)
        groups = {_text(group["name"]): group for group in await self._client.xinfo_groups(stream)}
        group = groups.get(GROUP)
        if group is None:
            return Depth(await self._client.xlen(stream), 0)
        undelivered = group.get("lag")
        if undelivered is None:
            after = f"({_text(group['last-delivered-id'])}"
            undelivered = len(await self._client.xrange(stream, min=after, count=COUNTED_AT_MOST) or ())
        return Depth(int(undelivered), int(group["pending"]))


class Partition:
    """One partition, as one member of the consumer group reads it."""

    def __init__(self, client: redis.asyncio.Redis, number: int, consumer: str) -> None:
        self.number = number
        self.consumer = consumer
        self._client = client
        self._stream = stream_key(number)
        self._failures = failures_key(number)

    async def read(self, limit: int, block_ms: int) -> list[Delivery]:
        """Entries that no consumer was given yet; waits up to `block_ms` milliseconds for one."""
        return await self._read(">", limit, block_ms)

    async def own_pending(self, limit: int) -> list[Delivery]:
        """Entries that this consumer was given and did not acknowledge."""
        return await self._read("0", limit, None)

    async def claim(self, idle_ms: int, limit: int) -> list[Delivery]:
        """Take over entries that any consumer, this one too, holds without a sign of life for `idle_ms`."""
        try:
            reply = await self._client.xautoclaim(
                self._stream, GROUP, self.consumer, min_idle_time=idle_ms, start_id="0-0", count=limit
            )
        except ResponseError as error:
            await self._make_group_again(error)
            return []
        return _deliveries(reply[1])

    async def keep(self, deliveries: Sequence[Delivery]) -> None:
        """Show that these are being worked on, so that nobody claims them. Does not count as a delivery."""
        ids: list[Any] = [delivery.id for delivery in deliveries]
        try:
            await self._client.xclaim(self._stream, GROUP, self.consumer, 0, ids, justid=True)
        except ResponseError as error:
            await self._make_group_again(error)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """These are done with; nobody is given them again."""
        ids = [delivery.id for delivery in deliveries]
        pipeline = self._client.pipeline(transaction=False)
        pipeline.xack(self._stream, GROUP, *ids)
        pipeline.hdel(self._failures, *ids)
        await pipeline.execute()

    async def count_failure(self, delivery: Delivery) -> int:
        """Note that handling this failed; returns how often it has, whoever tried."""
        return int(await self._client.hincrby(self._failures, delivery.id, 1))

    async def tidy(self, forget_after_ms: int, *, leaving: bool = False) -> tuple[int, int]:
        """Trim what is acknowledged, and forget consumers with nothing pending.

        Args:
            forget_after_ms: only those that asked for nothing this long.
            leaving: this consumer too, at once.

        Returns:
            The numbers of entries trimmed and of consumers forgotten.
        """
        arguments = (GROUP, str(forget_after_ms), self.consumer if leaving else "")
        trimmed, forgotten = await self._client.eval(_TIDY, 1, self._stream, *arguments)
        return int(trimmed), int(forgotten)

    async def _read(self, after: str, limit: int, block_ms: int | None) -> list[Delivery]:
        try:
            reply = await self._client.xreadgroup(
                GROUP, self.consumer, {self._stream: after}, count=limit, block=block_ms
            )
        except ResponseError as error:
            await self._make_group_again(error)
            return []
        streams = reply.values() if isinstance(reply, dict) else [entries for _, entries in reply]
        return [delivery for entries in streams for delivery in _deliveries(entries)]

    async def _make_group_again(self, error: ResponseError) -> None:
        """Make the group where it is not, from the first entry: a stream that came back holds what nobody was given."""
        if not str(error).startswith(("NOGROUP", "UNBLOCKED")):
            raise error
        try:
            await self._client.xgroup_create(self._stream, GROUP, id="0", mkstream=True)
        except ResponseError as refusal:
            if not str(refusal).startswith("BUSYGROUP"):  # another consumer was faster
                raise


def _deliveries(entries: Any) -> list[Delivery]:
    # An entry that was deleted while pending comes without fields: there is nothing left to do for it.
    return [
        Delivery(_text(entry_id), fields.get(b"e", b""), _text(fields.get(b"t", b"")))
        for entry_id, fields in entries
        if fields
    ]


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
