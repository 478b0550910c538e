"""The fence around what fan-out and builders write: only to shards of their truth, and so that a rewind shows.

A rewound Redis is as it was at an earlier moment, and nothing in it says so: an update that was made and is gone looks
like one that never was. So every script that fan-out runs leaves its number in the same step (the *witness* of this
process in that shard), and a batch of acknowledgements counts as being in a shard only while all of these are there.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from signals.redis import Argument, Reply, Script, SharedRedis, script


def marker_key(shard: int) -> str:
    """The key of a shard's marker."""
    return f"mk:{{{shard}}}"


class Witness:
    """The runs of scripts by this process that returned, by shard, which no batch has claimed yet."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        self._last = 0
        self._runs: defaultdict[int, list[int]] = defaultdict(list)

    def key(self, shard: int) -> str:
        """Where the numbers of this process's runs are."""
        return f"wi:{{{shard}}}:{self.name}"

    def number(self) -> int:
        """The number of a run that begins."""
        self._last += 1
        return self._last

    def returned(self, shard: int, number: int) -> None:
        """A run came back: what it did belongs to whatever is acknowledged from now on."""
        self._runs[shard].append(number)

    def take(self) -> dict[int, list[int]]:
        """All runs since the last time, for a batch."""
        runs, self._runs = self._runs, defaultdict(list)
        return dict(runs)

    def give_back(self, runs: Mapping[int, Sequence[int]]) -> None:
        """The batch that took these came to nothing; the next one has them."""
        for shard, numbers in runs.items():
            self._runs[shard] = [*numbers, *self._runs[shard]]


class Fence:
    """Runs scripts of a shard behind `fenced.lua`.

    Args:
        truth_id: gives the id of this process's truth, empty while it was never open.
        witness: of a process that acknowledges events; without one, runs leave no trace.
    """

    def __init__(self, truth_id: Callable[[], str], witness: Witness | None = None) -> None:
        self._truth_id = truth_id
        self._witness = witness

    async def run(
        self, redis: SharedRedis, script: Script, shard: int, keys: Sequence[Argument], args: Sequence[Argument]
    ) -> Reply:
        """Run a script whose keys are all of one shard.

        Raises:
            redis.exceptions.ResponseError: OTHERTRUTH, the shard is of another truth; nothing was done.
            redis.exceptions.RedisError: it may have been done.
        """
        witness, number = self._witness, 0
        witness_key, trace = f"wi:{{{shard}}}:", ""
        if witness is not None:
            number = witness.number()
            witness_key, trace = witness.key(shard), str(number)
        reply = await redis.run(
            fenced(script), [*keys, marker_key(shard), witness_key], [*args, self._truth_id(), trace]
        )
        if witness is not None:
            witness.returned(shard, number)
        return reply

    async def read(self, redis: SharedRedis, shard: int, command: str, key: Argument, *args: Argument) -> Reply:
        """Run a command that reads one key, as a script: what is concluded from it is lost with a rewind as well."""
        return await self.run(redis, script("read"), shard, [key], [command, *args])


@lru_cache
def fenced(inner: Script) -> Script:
    """A script behind the fence."""
    return inner.behind(script("fenced"))
