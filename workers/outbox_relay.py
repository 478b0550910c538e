"""The outbox relay: what stands in the truth's outbox is written to the event log, then marked published.

In that order: a crash between the two writes an event twice, which is harmless, and never not at all. By lease one
relay works at a time; two at once would only write events twice.
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from events.event import Event
from events.redis_streams import EventLog
from graph.social_graph import ChangeKind, OutboxRow, SocialGraph
from workers.grace import with_grace
from workers.lease import Lease
from workers.outage import is_outage, pause_seconds

log = structlog.get_logger(__name__)

ROWS_AT_ONCE = 512
STOP_SECONDS = 3.0


class OutboxRelay:
    """Publishes the outbox.

    Args:
        graph: the truth; its commits in this process wake the relay.
        events: the log.
        lease: of the relay that works.
        poll_seconds: how often to look for what other processes committed.
        renew_seconds: how often to renew the lease, or to ask for it.
        stop_seconds: how long a batch under way may take when the relay is stopped.
    """

    def __init__(
        self,
        graph: SocialGraph,
        events: EventLog,
        lease: Lease,
        *,
        poll_seconds: float = 0.1,
        renew_seconds: float = 1.0,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self._graph = graph
        self._events = events
        self._lease = lease
        self._poll_seconds = poll_seconds
        self._renew_seconds = renew_seconds
        self._stop_seconds = stop_seconds
        self._leading = False
        self._renew_at = 0.0
        self._failures = 0
        self._committed = asyncio.Event()
        graph.on_commit(self._committed.set)

    async def run(self) -> None:
        """Publish until cancelled. Holds while a store is away."""
        try:
            while True:
                try:
                    await self._round()
                except Exception as error:
                    if not is_outage(error):
                        raise
                    self._failures += 1
                    if self._failures == 1:
                        log.warning("outbox_relay_held", reason=str(error))
                    await asyncio.sleep(pause_seconds(self._failures))
        finally:
            self._leading = False
            await self._release()

    async def publish(self) -> int:
        """Publish the oldest rows of the outbox; returns how many there were."""
        rows = await self._graph.outbox(ROWS_AT_ONCE)
        if rows:
            await self._events.append([event_of(row) for row in rows])
            await self._graph.mark_published([row.id for row in rows])
        return len(rows)

    async def _round(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._leading or now >= self._renew_at:
            self._leading = await self._lease.renew() if self._leading else await self._lease.acquire() is not None
            self._renew_at = now + self._renew_seconds
        if not self._leading:
            await asyncio.sleep(self._renew_seconds)
            return
        self._committed.clear()  # before the outbox is read: a commit from here on is looked at in the next round
        published = await with_grace(self.publish(), self._stop_seconds)
        if self._failures:
            log.info("outbox_relay_resumed", failures=self._failures)
            self._failures = 0
        if published < ROWS_AT_ONCE:
            await self._wait_for_commit()

    async def _wait_for_commit(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._poll_seconds):
                await self._committed.wait()

    async def _release(self) -> None:
        try:
            await self._lease.release()
        except Exception as error:
            if not is_outage(error):
                raise
            log.info("outbox_relay_lease_left", reason=str(error))  # it runs out by itself


def event_of(row: OutboxRow) -> Event:
    """The event that tells a row of the outbox."""
    return Event(row.id, ChangeKind(row.kind).value, row.user_id, row.other_id, row.ordinal, row.number)
