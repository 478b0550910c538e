"""The live totals as the recount's leader publishes them for all web processes.

A publication is named by its epoch, which begins anew with every leader's term, and its sequence within it. A reader
goes on from the one it shows by the changes in between, or else takes the whole.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from signals.live_sessions import Clock
from signals.redis import Argument, Reply, SharedRedis, script
from signals.shard_counts import Counts, unpack_counts

PUBLISH = script("publish_totals")
READ = script("read_totals", read_only=True)

#: The hash tag of the totals and of the lease of who publishes them: one slot, so that one script compares both.
TAG = "live"
#: A reader that is further behind than this many publications takes the whole totals.
CHANGES_KEPT = 10
TOTALS_KEYS: tuple[Argument, ...] = tuple(f"{name}:{{{TAG}}}" for name in ("totals", "totals_changes", "totals_state"))


class Published(IntEnum):
    """What became of a publication, as `publish_totals.lua` numbers it."""

    DONE = 1
    NOT_THE_LEADER = 0
    NOT_WHAT_STOOD = -1


class Publication(NamedTuple):
    """What a publication says of itself. Times are milliseconds of Redis's clock.

    Before `known_from_ms` counts are smaller than the truth, because Redis lost sessions and clients have not all sent
    their next heartbeat. `origin` is a random id of this store of totals; who remembers another one takes
    `settles_at_ms` for `known_from_ms` as well.
    """

    epoch: str = ""
    sequence: int = 0
    as_of_ms: int = 0
    known_from_ms: int = 0
    origin: str = ""
    settles_at_ms: int = 0


class Read(NamedTuple):
    """The publication that stands, None where there is none, and its counts: rows of (game number, sessions, people).

    `whole`: the counts are all there are, and replace what the reader has; otherwise they are what changed since the
    publication the reader named, and none if that one still stands.
    """

    now_ms: int
    publication: Publication | None
    whole: bool
    counts: list[Counts]


class PublishedTotals:
    """The totals in Redis."""

    def __init__(self, redis: SharedRedis, *, clock_ms: Clock | None = None) -> None:
        self._redis = redis
        self._clock_ms = clock_ms

    async def read(self, seen: Publication) -> Read:
        """What was published since `seen`, in one round trip.

        Raises:
            redis.exceptions.RedisError: it could not be read.
        """
        now: Argument = self._clock_ms() if self._clock_ms else ""
        reply = await self._redis.run(READ, list(TOTALS_KEYS), [now, seen.epoch, seen.sequence])
        now_ms, state, kind, payload = reply
        if not state:
            return Read(now_ms, None, whole=False, counts=[])
        publication = _publication(state)
        if kind == 2:
            return Read(now_ms, publication, whole=True, counts=[_whole(payload)])
        return Read(now_ms, publication, whole=False, counts=[unpack_counts(part) for part in reversed(payload)])

    async def publish(
        self, lease_key: str, claim: str, base: Publication, publication: Publication, changes: Counts
    ) -> Published:
        """Publish what changed.

        Args:
            lease_key: the lease that the publisher must hold. Its hash tag is `TAG`.
            claim: what the lease's key holds while the publisher holds it.
            base: the publication that `changes` build on.
            publication: the new one.
            changes: rows of (game number, sessions, people); 0 and 0 takes a game out.

        Raises:
            redis.exceptions.RedisError: the outcome is unknown.
        """
        args: list[Argument] = [
            claim,
            base.epoch,
            base.sequence,
            *publication,
            changes.tobytes(),
            CHANGES_KEPT,
        ]
        return Published(await self._redis.run(PUBLISH, [lease_key, *TOTALS_KEYS], args))


def _publication(state: Reply) -> Publication:
    epoch, sequence, as_of, known_from, origin, settles_at = state
    return Publication(epoch.decode(), int(sequence), int(as_of), int(known_from), origin.decode(), int(settles_at))


def _whole(payload: list[bytes]) -> Counts:
    counts = np.empty((len(payload) // 2, 3), dtype="<u4")
    counts[:, 0] = [int(number) for number in payload[::2]]
    counts[:, 1:] = np.frombuffer(b"".join(payload[1::2]), dtype="<u4").reshape(-1, 2)
    return counts
