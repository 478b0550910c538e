"""How long the logs of pulled users are: those whose many friends read their plays instead of having them pushed.

One process reads the lengths from the truth once an interval and publishes them; every web process holds them in its
memory, so that a page that shows such friends learns without asking anybody whether their cursors stand at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import structlog
from redis.exceptions import RedisError

from signals.pace import Pace
from signals.redis import SharedRedis, script

log = structlog.get_logger(__name__)

PUBLISH = script("publish_pulled_logs")
READ = script("read_pulled_logs", read_only=True)

#: The hash tag of the table and the name of the lease of who publishes it: one slot, so that one script compares both.
TAG = "pulled_logs"
KEY = f"pulled_logs:{{{TAG}}}"
ENTRY = np.dtype([("owner", "<u8"), ("length", "<u4")])


async def publish(
    redis: SharedRedis, lease_key: str, claim: str, as_of_ms: int, content: str, lengths: Mapping[int, int]
) -> bool:
    """Publish the lengths of all pulled users' logs.

    Args:
        redis: where they are published.
        lease_key: the lease that the publisher must hold. Its hash tag is `TAG`.
        claim: what the lease's key holds while the publisher holds it.
        as_of_ms: Redis's clock before the truth was read, milliseconds.
        content: a text that no other lengths had.
        lengths: owner to entries.

    Returns:
        Whether they were published; False where the lease is not held.

    Raises:
        redis.exceptions.RedisError: the outcome is unknown; repeating it is harmless.
    """
    packed = np.fromiter(lengths.items(), dtype=ENTRY, count=len(lengths)).tobytes()
    return bool(await redis.run(PUBLISH, [lease_key, KEY], [claim, as_of_ms, content, packed]))


class PulledLogs:
    """The lengths in this process's memory, fetched once an interval.

    Lengths are those of one moment of the truth; `age_seconds` tells how long ago it was. They are never followed by
    those of an earlier moment.
    """

    def __init__(
        self, redis: SharedRedis, interval_ms: int, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Start without any.

        Args:
            redis: where lengths are published.
            interval_ms: time between two publications, and between two looks.
            monotonic: this process's clock, in seconds.
        """
        self._redis = redis
        self._interval_seconds = interval_ms / 1000
        self._monotonic = monotonic
        self._lengths: Mapping[int, int] = {}
        self._content = ""  # of what is held; '' where this process read it itself
        self._read_at = float("-inf")  # when the truth was read, by this process's clock

    @property
    def age_seconds(self) -> float:
        """How long ago the truth had these lengths; infinite before the first."""
        return self._monotonic() - self._read_at

    @property
    def late(self) -> bool:
        """Whether newer lengths should have come by now: nobody publishes, or Redis is away."""
        # A publication may wait an interval for the next look, and be used for another one until then.
        return self.age_seconds > 2.5 * self._interval_seconds + 0.5

    def length(self, owner_id: int) -> int | None:
        """Entries in a pulled user's log; None where the user's plays were not pulled at that moment."""
        return self._lengths.get(owner_id)

    def take(self, lengths: Mapping[int, int], asked: float) -> None:
        """Hold what this process read from the truth itself; `asked`, by its monotonic clock, is before the read."""
        if asked > self._read_at:
            self._lengths, self._content, self._read_at = lengths, "", asked

    async def run(self) -> None:
        """Refresh once an interval, for ever. Redis being away is logged once and changes nothing else."""
        pace = Pace(self._interval_seconds)
        away = False
        while True:
            try:
                await self.refresh()
            except (RedisError, OSError) as error:
                if not away:
                    log.warning("pulled_logs_not_refreshed", reason=str(error))
                away = True
            else:
                if away:
                    log.info("pulled_logs_refreshed_again")
                away = False
            await pace.tick()

    async def refresh(self) -> None:
        """Fetch what was published: one round trip.

        Raises:
            redis.exceptions.RedisError: it could not be fetched.
        """
        asked = self._monotonic()
        held = self._content
        now_ms, as_of, content, packed = await self._redis.run(READ, [KEY], [held])
        if as_of is None:
            return
        read_at = asked - max(0, now_ms - int(as_of)) / 1000
        if read_at <= self._read_at:
            return
        if packed is not None:
            rows = np.frombuffer(packed, dtype=ENTRY)
            self._lengths = dict(zip(rows["owner"].tolist(), rows["length"].tolist(), strict=True))
            self._content = content.decode()
        elif held != self._content:
            return  # this process read the truth meanwhile: what the reply leaves out is no longer held
        self._read_at = read_at
