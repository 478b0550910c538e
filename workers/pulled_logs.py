"""Publishes, once an interval and by lease, how long the logs of pulled users are."""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from redis.exceptions import RedisError

from graph.social_graph import SocialGraph
from signals.pace import Pace
from signals.pulled_logs import TAG, publish
from signals.redis import SharedRedis
from workers.lease import Lease
from workers.outage import is_outage

log = structlog.get_logger(__name__)

LEASE_NAME = TAG


def lease_seconds(interval_ms: int) -> float:
    """How long the lease stands between two publications."""
    return max(2.5, 2.5 * interval_ms / 1000)


class PulledLogsPublisher:
    """One process's part in publishing; any number of processes may run it.

    Args:
        graph: the truth.
        redis: where lengths are published.
        interval_ms: time between two publications.
        lease: named `LEASE_NAME`; only its holder publishes.

    Raises:
        ValueError: the lease has another name, so its key would not share the table's slot.
    """

    def __init__(self, graph: SocialGraph, redis: SharedRedis, interval_ms: int, lease: Lease) -> None:
        if lease.name != LEASE_NAME:
            raise ValueError(f"the lease is named {LEASE_NAME!r}, not {lease.name!r}")
        self._graph = graph
        self._redis = redis
        self._interval_seconds = interval_ms / 1000
        self._lease = lease
        self._published: Mapping[int, int] | None = None
        self._contents = 0

    async def run(self) -> None:
        """Publish once an interval while the lease is held, until cancelled. Holds while a store is away."""
        pace = Pace(self._interval_seconds)
        away = False
        try:
            while True:
                try:
                    await self.publish()
                except Exception as error:
                    if not is_outage(error):
                        raise
                    if not away:
                        log.warning("pulled_logs_held", reason=str(error))
                    away = True
                else:
                    away = False
                await pace.tick()
        finally:
            try:
                await self._lease.release()
            except (RedisError, OSError) as error:
                log.info("pulled_logs_lease_left", reason=str(error))  # it runs out by itself

    async def publish(self) -> bool:
        """Read the lengths and publish them, if the lease can be had. Returns whether they were published.

        Raises:
            GraphError: the truth cannot be read.
            redis.exceptions.RedisError: the outcome is unknown.
        """
        token = await self._lease.acquire()  # whoever holds it has the same token again, and another ttl
        if token is None:
            return False
        seconds, microseconds = await self._redis.call("TIME")
        lengths = await self._graph.pulled_logs()
        if lengths != self._published:
            self._published = None
            self._contents += 1
        content = f"{token}:{self._contents}"
        as_of_ms = int(seconds) * 1000 + int(microseconds) // 1000
        published = await publish(self._redis, self._lease.key, self._lease.claim, as_of_ms, content, lengths)
        if published:
            self._published = lengths
        return published
