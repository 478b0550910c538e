"""Waiting until the events of now have been handled: what still lacks them afterwards will never get them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from events.event_progress import EventProgress
from graph.social_graph import ChangeKind, OutboxRow, SocialGraph

#: Rows of the outbox looked at at once. Where more wait, the rest is looked at when these have gone.
ROWS_AT_ONCE = 10_000
#: A worker that died is followed after 5 s; then something moves again.
PATIENCE_SECONDS = 15.0
FIRST_LOOK_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.5


class InFlight:
    """The events between the truth and the views.

    Args:
        graph: whose outbox they leave.
        progress: of the log that they go through.
        patience_seconds: how long to wait while nothing moves.
        longest_seconds: how long to wait while something does.
        clock: this process's clock, in seconds.
    """

    def __init__(
        self,
        graph: SocialGraph,
        progress: EventProgress,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        longest_seconds: float = 120.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._graph = graph
        self._progress = progress
        self._patience_seconds = patience_seconds
        self._longest_seconds = longest_seconds
        self._clock = clock

    async def settle(self) -> bool:
        """Wait until every event of what the truth holds now was handled.

        Returns:
            False where that did not come about in time.

        Raises:
            GraphError, redis.exceptions.RedisError: a store is away.
        """
        clock = self._clock or asyncio.get_running_loop().time
        watch = _Watch(self._patience_seconds, self._longest_seconds, clock)
        while True:
            rows = await self._graph.outbox(ROWS_AT_ONCE)
            all_known, left = len(rows) < ROWS_AT_ONCE, {_change_of(row) for row in rows}
            # A row leaves the outbox once it is in the log: first the one, then the other.
            while left:
                if not await watch.goes_on(("outbox", len(left))):
                    return False
                rows = await self._graph.outbox(ROWS_AT_ONCE)
                there = {_change_of(row) for row in rows}
                if len(rows) < ROWS_AT_ONCE:
                    left &= there
                else:  # what took the place of a row may stand behind those that were looked at
                    left = {change for change in left if change in there or change[0] is ChangeKind.LOG}
            if all_known:
                break
        ends = await self._progress.ends()
        while waiting := await self._progress.waiting(ends):
            if not await watch.goes_on(tuple(waiting)):
                return False
        return True


def _change_of(row: OutboxRow) -> tuple[ChangeKind, int]:
    """What is waited for: the row, but for a log, of which a later row may take the place of the one that waits."""
    return row.kind, row.user_id if row.kind is ChangeKind.LOG else row.id


class _Watch:
    """Pauses between looks, and gives up when nothing has moved for too long."""

    def __init__(self, patience_seconds: float, longest_seconds: float, clock: Callable[[], float]) -> None:
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._begun = self._moved_at = clock()
        self._ends_at = self._begun + longest_seconds
        self._seen: object = None
        self._pause_seconds = FIRST_LOOK_SECONDS

    async def goes_on(self, seen: object) -> bool:
        """Pause before the next look, or say that it is not worth another."""
        now = self._clock()
        if seen != self._seen:
            self._seen, self._moved_at, self._pause_seconds = seen, now, FIRST_LOOK_SECONDS
        if now - self._moved_at >= self._patience_seconds or now >= self._ends_at:
            return False
        await asyncio.sleep(self._pause_seconds)
        self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)
        return True
