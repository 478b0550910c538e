"""The slow audit of live counts: who leads the recount counts one shard after the other from its sets.

None should ever be wrong: counts are kept in the step that changes the sets. What is found wrong is told to the log and
the metrics, and the shard is counted anew, so that no fault of whatever kind stays.
"""

from __future__ import annotations

import asyncio

import structlog
from redis.exceptions import RedisError

from signals.live_audit import LiveAudit
from signals.redis import SharedRedis
from signals.shards import SHARDS
from workers.lease import Lease

log = structlog.get_logger(__name__)

#: Between two shards: all of them in a quarter of an hour. Reading 16,000 sessions holds Redis for some milliseconds.
PAUSE_SECONDS = 15.0
#: How many of a shard's wrong games the log names.
NAMED_GAMES = 10


class LiveCountsAudit:
    """Audits the shards of live sessions, round and round.

    Args:
        redis: where they are.
        lease: the recount's: whoever holds it audits.
        pause_seconds: between two shards.
    """

    def __init__(self, redis: SharedRedis, lease: Lease, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._audit = LiveAudit(redis)
        self._lease = lease
        self._pause_seconds = pause_seconds
        self._shard = 0
        self.shards_audited = 0
        self.drift_games = 0

    async def run(self) -> None:
        """Audit while the lease is held, for ever. A store that is away is waited for."""
        while True:
            await asyncio.sleep(self._pause_seconds)
            if not self._lease.held:
                continue
            try:
                await self.audit(self._shard)
            except (RedisError, OSError) as error:
                log.info("live_audit_held", reason=str(error))
            else:
                self._shard = (self._shard + 1) % SHARDS

    async def audit(self, shard: int) -> None:
        """Audit one shard, and mend it.

        Raises:
            redis.exceptions.RedisError: it could not be read, or not be mended.
        """
        found = await self._audit.look(shard)
        self.shards_audited += 1
        if found.clean:
            return
        self.drift_games += max(len(found.drifted), 1)
        log.error(
            "live_counts_drifted",
            shard=shard,
            games=len(found.drifted),
            users=found.users,
            strays=found.strays,
            first=found.drifted[:NAMED_GAMES],
        )
        await self._audit.rebuild(shard)
