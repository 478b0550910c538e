"""A lease: of all processes that run a job, one holds it at a time, by Redis's clock."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable

from signals.redis import SharedRedis, script

ACQUIRE = script("lease_acquire")
RENEW = script("lease_renew")
RELEASE = script("lease_release")


class Lease:
    """One process's claim on a name. Used by one task at a time.

    A holder that stalls may find its lease gone. Scripts on the same slot compare `key` with `claim`; everything else
    compares the token, which is greater for every new holder.
    """

    def __init__(
        self, redis: SharedRedis, name: str, ttl_seconds: float, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare a claim.

        Args:
            redis: where the lease is kept.
            name: what is leased; also the hash tag of its keys.
            ttl_seconds: how long it stands without being renewed.
            monotonic: this process's clock, in seconds.
        """
        self.name = name
        self.key = f"lease:{{{name}}}"
        self.ttl_seconds = ttl_seconds
        self.token: int | None = None
        self._redis = redis
        self._fence_key = f"fence:{{{name}}}"
        # Names the process for people; what makes it unique is the last part.
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        self._ttl_ms = max(1, round(ttl_seconds * 1000))
        self._monotonic = monotonic
        self._until = 0.0

    @property
    def claim(self) -> str:
        """What `key` holds while this lease is held; a text that is never there while it is not."""
        return f"{self.token}:{self._holder}"

    @property
    def held(self) -> bool:
        """Whether it is held as far as this process can know: counted from when the last answer was asked for."""
        return self.token is not None and self._monotonic() < self._until

    async def acquire(self) -> int | None:
        """Take the lease if nobody holds it; holding it already, keep it.

        Returns:
            The fencing token of this term, or None while another holds the lease.

        Raises:
            redis.exceptions.RedisError: the outcome is unknown; asking again gives the same token.
        """
        asked = self._monotonic()
        token = await self._redis.run(ACQUIRE, [self.key, self._fence_key], [self._holder, self._ttl_ms])
        self.token = None if token is None else int(token)
        self._until = asked + self.ttl_seconds
        return self.token

    async def renew(self) -> bool:
        """Hold it for another ttl.

        Returns:
            False where the term is over: it lapsed, or another holds it. Then `token` is None, and only `acquire`
            begins a new term.

        Raises:
            redis.exceptions.RedisError: the outcome is unknown; `held` still says how long it is safe to go on.
        """
        if self.token is None:
            return False
        asked = self._monotonic()
        if await self._redis.run(RENEW, [self.key], [self.claim, self._ttl_ms]):
            self._until = asked + self.ttl_seconds
            return True
        self.token = None
        return False

    async def release(self) -> None:
        """Give it up, if it is held.

        Raises:
            redis.exceptions.RedisError: it may stand until its ttl is over.
        """
        if self.token is None:
            return
        claim, self.token = self.claim, None
        await self._redis.run(RELEASE, [self.key], [claim])
