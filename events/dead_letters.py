"""Dead letters: events set aside after their handling failed too often, for an operator to look at and replay."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import redis.asyncio

from events.event import Event
from events.redis_streams import Delivery, stream_key

KEY = "dl:{e}"
#: The oldest beyond this leave. Nothing is lost with them: the views they concern were evicted.
KEPT = 100_000
REPLAYED_AT_ONCE = 500

_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


class DeadLetter(NamedTuple):
    """An event that was set aside.

    `event` is None where `data` is not one that this program can read. `at` is when, in Unix seconds; `attempts` how
    often its handling failed; `partition` where it was read and goes back to.
    """

    id: str
    event: Event | None
    data: bytes
    error: str
    at: float
    attempts: int
    partition: int


class DeadLetters:
    """The dead-letter stream."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client = client

    async def set_aside(self, partition: int, delivery: Delivery, error: str, attempts: int) -> None:
        """Keep an event that could not be handled. Whoever calls this evicts the views it concerns first."""
        fields: dict[Any, Any] = {"p": partition, "e": delivery.data, "error": error[:1000], "attempts": attempts}
        await self._client.xadd(KEY, fields, maxlen=KEPT, approximate=True)

    async def list(self, limit: int = 100) -> Sequence[DeadLetter]:
        """The oldest dead letters."""
        return [_letter(*entry) for entry in await self._range("-", "+", limit)]

    async def count(self) -> int:
        """How many there are."""
        return int(await self._client.xlen(KEY))

    async def replay(self, ids: Collection[str] | None = None) -> int:
        """Write dead letters to the log again, then delete them.

        Args:
            ids: these; None is all there are now. Ids that are not there are left out.

        Returns:
            How many were replayed.

        Raises:
            ValueError: not the id of a dead letter; the text is one line.
        """
        if ids is not None:
            for one in ids:
                if not _ID.fullmatch(one):
                    raise ValueError(f"not the id of a dead letter: {one[:50]!r}")
            found = [entry for one in ids for entry in await self._range(one, one, 1)]
            await self._replay(found)
            return len(found)
        newest: Any = await self._client.xrevrange(KEY, count=1)
        replayed = 0
        while newest:  # up to the newest of now: what fails again comes back behind it
            part = await self._range("-", newest[0][0], REPLAYED_AT_ONCE)
            if not part:
                break
            await self._replay(part)
            replayed += len(part)
        return replayed

    async def _range(self, first: str, last: str, limit: int) -> Sequence[Any]:
        return await self._client.xrange(KEY, min=first, max=last, count=limit) or ()

    async def _replay(self, entries: Sequence[Any]) -> None:
        if not entries:
            return
        pipeline = self._client.pipeline(transaction=False)
        for _, fields in entries:
            pipeline.xadd(stream_key(int(fields[b"p"])), {"e": fields[b"e"]})
        await pipeline.execute()
        await self._client.xdel(KEY, *[entry_id for entry_id, _ in entries])


def _letter(entry_id: bytes, fields: dict[bytes, bytes]) -> DeadLetter:
    try:
        event = Event.decode(fields[b"e"])
    except ValueError:
        event = None
    milliseconds = int(entry_id.partition(b"-")[0])
    return DeadLetter(
        id=entry_id.decode(),
        event=event,
        data=fields[b"e"],
        error=fields[b"error"].decode(errors="replace"),
        at=milliseconds / 1000,
        attempts=int(fields[b"attempts"]),
        partition=int(fields[b"p"]),
    )
