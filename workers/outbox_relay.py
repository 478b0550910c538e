"""The outbox relay: what stands in the truth's outbox is written to the event log, then marked published.

In that order: a crash between the two writes an event twice, which is harmless, and never not at all. By lease one
relay works at a time; two at once would only write events twice.

The relay is also who notices that Redis has forgotten (`workers.markers`): once a second it compares the markers, and
an append does not pass where its partition is not as this relay left it. Then it takes over anew, and so does every
relay that begins.
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
from workers.markers import Markers
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
        markers: compares what is derived with the truth; None for tests of the log alone.
        poll_seconds: how often to look for what other processes committed.
        check_seconds: how often to compare the markers.
        renew_seconds: how often to renew the lease, or to ask for it.
        stop_seconds: how long a batch under way may take when the relay is stopped.
    """

    def __init__(
        self,
        graph: SocialGraph,
        events: EventLog,
        lease: Lease,
        *,
        markers: Markers | None = None,
        poll_seconds: float = 0.1,
        check_seconds: float = 1.0,
        renew_seconds: float = 1.0,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self._graph = graph
        self._events = events
        self._lease = lease
        self._markers = markers
        self._poll_seconds = poll_seconds
        self._check_seconds = check_seconds
        self._renew_seconds = renew_seconds
        self._stop_seconds = stop_seconds
        self._leading = False
        self._renew_at = 0.0
        self._taken_over = False
        self._check_at = 0.0
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
        """Publish the oldest rows of the outbox; returns how many there were, 0 where the log is to be taken over."""
        if self._markers is not None and not self._taken_over:
            await self._markers.take_over()
            self._taken_over = True
        rows = await self._graph.outbox(ROWS_AT_ONCE)
        if rows:
            events = [event_of(row) for row in rows]
            if self._markers is None:
                await self._events.append(events)
            elif not await self._markers.publisher.append(events):
                self._lose("an append did not pass")
                return 0
            await self._graph.mark_published([row.id for row in rows])
            await self._see_them_stand()
        return len(rows)

    async def check(self) -> None:
        """Compare the markers. Where streams are not as this relay left them, it takes over before it goes on."""
        if self._markers is not None and self._taken_over and not await self._markers.check():
            self._lose("the streams are not what was written last")

    async def _see_them_stand(self) -> None:
        """Whoever took the log over between an append and its mark had these rows told again too early, or not at all
        if the log forgot them in between: so this relay does it, although it may lead no longer.
        """
        if self._markers is not None and not await self._markers.publisher.stands():
            await self._graph.unacknowledge_after(await self._graph.acknowledged_batch())
            self._lose("another relay took over, or the streams were rewound")

    def _lose(self, reason: str) -> None:
        log.warning("outbox_relay_takes_over", reason=reason)
        self._taken_over = False
        self._renew_at = 0.0  # if it leads still

    async def _round(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._leading or now >= self._renew_at:
            self._leading = await self._lease.renew() if self._leading else await self._lease.acquire() is not None
            self._renew_at = now + self._renew_seconds
        if not self._leading:
            self._taken_over = False
            await asyncio.sleep(self._renew_seconds)
            return
        self._committed.clear()  # before the outbox is read: a commit from here on is looked at in the next round
        published = await with_grace(self.publish(), self._stop_seconds)
        if now >= self._check_at:
            await self.check()
            self._check_at = asyncio.get_running_loop().time() + self._check_seconds
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
