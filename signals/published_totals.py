"""The live totals as the recount's leader publishes them for all web processes.

A publication is named by its epoch, which begins anew with every leader's term, and its sequence within it. A reader
goes on from the one it shows by the changes in between, or else takes the whole.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from signals.live_sessions import Clock
from signals.redis import Argument, Reply, SharedRedis, script

PUBLISH = script("publish_totals")
READ = script("read_totals", read_only=True)

#: The hash tag of the totals and of the lease of who publishes them: one slot, so that one script compares both.
TAG = "live"
#: A reader that is further behind than this many publications takes the whole totals.
CHANGES_KEPT = 10
TOTALS_KEYS: tuple[Argument, ...] = tuple(
    f"{name}:{{{TAG}}}" for name in ("live_totals", "live_totals_changes", "live_totals_state")
)

#: Rows of (game number, sessions, people, players of the day).
Totals: TypeAlias = npt.NDArray[np.uint32]


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

    Players of the day are those of the UTC day of `as_of_ms`, as they were counted at `players_as_of_ms`; before
    `players_from_ms` they are fewer than the truth, because Redis lost some of that day's; `players_settle_at_ms` is to
    it what `settles_at_ms` is to `known_from_ms`.
    """

    epoch: str = ""
    sequence: int = 0
    as_of_ms: int = 0
    known_from_ms: int = 0
    origin: str = ""
    settles_at_ms: int = 0
    players_as_of_ms: int = 0
    players_from_ms: int = 0
    players_settle_at_ms: int = 0


class Read(NamedTuple):
    """The publication that stands, None where there is none, and its counts.

    `whole`: the counts are all there are, and replace what the reader has; otherwise they are what changed since the
    publication the reader named, and none if that one still stands.
    """

    now_ms: int
    publication: Publication | None
    whole: bool
    counts: list[Totals]


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
        return Read(now_ms, publication, whole=False, counts=[_changes(part) for part in reversed(payload)])

    async def publish(
        self, lease_key: str, claim: str, base: Publication, publication: Publication, changes: Totals
    ) -> Published:
        """Publish what changed.

        Args:
            lease_key: the lease that the publisher must hold. Its hash tag is `TAG`.
            claim: what the lease's key holds while the publisher holds it.
            base: the publication that `changes` build on.
            publication: the new one.
            changes: rows; one of a game without sessions, people and players takes it out.

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
    epoch, sequence, as_of, known_from, origin, *others = state
    return Publication(
        epoch.decode(), int(sequence), int(as_of), int(known_from), origin.decode(), *(int(other) for other in others)
    )


def _changes(packed: bytes) -> Totals:
    return np.frombuffer(packed, dtype="<u4").reshape(-1, 4)


def _whole(payload: list[bytes]) -> Totals:
    counts = np.empty((len(payload) // 2, 4), dtype="<u4")
    counts[:, 0] = [int(number) for number in payload[::2]]
    counts[:, 1:] = np.frombuffer(b"".join(payload[1::2]), dtype="<u4").reshape(-1, 3)
    return counts
