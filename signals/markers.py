"""A marker a shard: of which truth it is, and up to which batch of acknowledgements everything is in it.

`mk:{t}` is a hash: `truth`; `batch`, the number up to which every batch's updates are in this shard; and a field each
for later batches that are in while one before them is not yet. A marker without `batch` says that the shard is being
emptied. `workers.markers` says what follows from a marker, and why that is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from signals.fence import Witness, marker_key
from signals.redis import Argument, SharedRedis, script
from signals.shards import SHARDS


class Marker(NamedTuple):
    """What stands in a shard. `truth_id` is empty where there is no marker, `batch` None while it is being emptied."""

    truth_id: str = ""
    batch: int | None = None


class ShardMarkers:
    """The markers of the shards.

    Args:
        redis: where they are.
        shards: which; fewer only where a test knows that the others are empty.
    """

    def __init__(self, redis: SharedRedis, *, shards: Collection[int] = range(SHARDS)) -> None:
        self.shards = list(shards)
        self._redis = redis
        self._settle = script("settle")
        self._move = script("move_marker")

    async def read(self) -> dict[int, Marker]:
        """Every marker, in one pipeline.

        Raises:
            redis.exceptions.RedisError: they could not be read.
        """
        calls = [self._redis.call("HMGET", marker_key(shard), "truth", "batch") for shard in self.shards]
        replies = await asyncio.gather(*calls, return_exceptions=True)
        markers = {}
        for shard, reply in zip(self.shards, replies, strict=True):
            if isinstance(reply, BaseException):
                raise reply
            truth_id, batch = reply
            markers[shard] = Marker((truth_id or b"").decode(), None if batch is None else int(batch))
        return markers

    async def settle(self, truth_id: str, batch: int, witness: Witness, runs: Mapping[int, Sequence[int]]) -> list[int]:
        """A batch was stamped; say so in every shard that everything of it is in.

        Args:
            truth_id: of the truth that numbered the batch.
            batch: its number.
            witness: of this process.
            runs: of scripts, by shard, that returned before the stamp, all since the last batch.

        Returns:
            The shards that it is not in: a run is gone, so Redis was rewound; or the marker is.

        Raises:
            redis.exceptions.RedisError: it may be settled in some shards; settling again is harmless.
        """
        calls = [
            self._redis.run(
                self._settle, [marker_key(shard), witness.key(shard)], [truth_id, batch, *runs.get(shard, ())]
            )
            for shard in self.shards
        ]
        replies = await asyncio.gather(*calls, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return [shard for shard, settled in zip(self.shards, replies, strict=True) if not settled]

    async def move(self, shard: int, found: Marker, to: Marker, emptied: Witness | None = None) -> bool:
        """Put a marker in the place of the one that was found.

        Args:
            shard: whose.
            found: what has to stand there.
            to: what is to stand there.
            emptied: the runs that emptied the shard, where it was: they have to be in its history.

        Returns:
            False where another marker stands there by now, or one of those runs is gone.
        """
        witness = emptied or Witness()
        args: list[Argument] = [*_parts(found), *_parts(to), *witness.take().get(shard, ())]
        return bool(await self._redis.run(self._move, [marker_key(shard), witness.key(shard)], args))


def _parts(marker: Marker) -> tuple[str, str]:
    return marker.truth_id, "" if marker.batch is None else str(marker.batch)
