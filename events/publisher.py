"""The one who writes to the event log, and who notices when it has forgotten what was written.

Beside each partition stands what its publisher wrote there last, changed in the same step as the entries are added and
only if it is what this publisher knows. So an append that passes was made to the very history that holds all earlier
ones; where Redis was rewound, or another publisher took over, it does not pass. Whoever is told so takes the partitions
over again and has everything published again that was not acknowledged (`workers.outbox_relay`).
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import redis.asyncio

from events.event import PARTITIONS, Event
from events.redis_streams import failures_key, stream_key

#: Entries of one script call.
APPENDED_AT_ONCE = 500

_LUA = Path(__file__).parent / "lua"
_APPEND = (_LUA / "append.lua").read_text()
_ADOPT = (_LUA / "adopt.lua").read_text()


def mark_key(partition: int) -> str:
    """The key of what a partition's publisher wrote last."""
    return f"mk:{{e{partition}}}"


class Publisher:
    """Appends events. Used by one task at a time.

    Args:
        client: of the Redis that holds the log.
        truth_id: gives the id of this process's truth.
    """

    def __init__(self, client: redis.asyncio.Redis, truth_id: Callable[[], str]) -> None:
        self._client = client
        self._truth_id = truth_id
        self._number = 0
        self._marks: list[str] = [""] * PARTITIONS

    async def adopt(self) -> int:
        """Take all partitions over. Streams of another truth are emptied; returns how many were.

        Raises:
            redis.exceptions.RedisError: some may be taken over; taking over again is harmless.
        """
        publisher = secrets.token_hex(8)
        self._number += 1
        marks = [f"{self._truth_id()}:{publisher}:{self._number}"] * PARTITIONS
        emptied = await self._adopt(marks)
        self._marks = marks
        return emptied

    async def drop(self, *, only_another_truths: bool) -> int:
        """Empty the streams of another truth, or all, whoever publishes; returns how many were."""
        if not only_another_truths:
            pipeline = self._client.pipeline(transaction=False)
            for number in range(PARTITIONS):
                pipeline.unlink(stream_key(number), failures_key(number), mark_key(number))
            await pipeline.execute()
        return await self._adopt([""] * PARTITIONS)

    async def append(self, events: Sequence[Event]) -> bool:
        """Write events, each to its user's partition, in their order.

        Returns:
            False where a partition does not hold what this publisher wrote last; any part may have been written.

        Raises:
            redis.exceptions.RedisError: any part may have been written. Writing all again is harmless.
        """
        of_partition: defaultdict[int, list[bytes]] = defaultdict(list)
        for event in events:
            of_partition[event.partition].append(event.encode())
        while of_partition:
            pipeline = self._client.pipeline(transaction=False)
            following: dict[int, str] = {}
            for number, waiting in list(of_partition.items()):
                self._number += 1
                truth_id, publisher, _ = self._marks[number].split(":") if self._marks[number] else ("", "", "")
                following[number] = f"{truth_id}:{publisher}:{self._number}"
                arguments: list[str | bytes] = [self._marks[number], following[number], truth_id]
                arguments += waiting[:APPENDED_AT_ONCE]
                pipeline.eval(_APPEND, 2, stream_key(number), mark_key(number), *arguments)
                if len(waiting) > APPENDED_AT_ONCE:
                    of_partition[number] = waiting[APPENDED_AT_ONCE:]
                else:
                    del of_partition[number]
            # Taken to stand before the answer is known: where it was lost, what stands is either this or the one
            # before, and if it is the one before, the next append is refused and everything begins anew.
            for number, mark in following.items():
                self._marks[number] = mark
            if not all(await pipeline.execute()):
                return False
        return True

    async def stands(self) -> bool:
        """Whether every partition still holds what this publisher wrote last."""
        pipeline = self._client.pipeline(transaction=False)
        for number in range(PARTITIONS):
            pipeline.get(mark_key(number))
        marks: list[bytes | None] = await pipeline.execute()
        return [(mark or b"").decode() for mark in marks] == self._marks

    async def _adopt(self, marks: Sequence[str]) -> int:
        pipeline = self._client.pipeline(transaction=False)
        for number, mark in enumerate(marks):
            keys = (stream_key(number), failures_key(number), mark_key(number))
            pipeline.eval(_ADOPT, 3, *keys, self._truth_id(), mark)
        return sum(map(int, await pipeline.execute()))
