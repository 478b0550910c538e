"""The view janitor: views that nobody read for a day leave Redis, each at once.

Keys are never given an expiry of their own: Redis would drop a view's keys one by one, and what is left would be a
wrong view. Any number of janitors may work at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from signals.views import FriendViews
from workers.outage import is_outage

log = structlog.get_logger(__name__)

EVICTED_AT_ONCE = 256


class ViewJanitor:
    """Evicts idle views.

    Args:
        views: the views.
        idle_seconds: how long a view may go unread.
        round_seconds: time between looks.
        clock: the time in Unix seconds, as `FriendViews.touch` is told it.
    """

    def __init__(
        self,
        views: FriendViews,
        idle_seconds: float,
        *,
        round_seconds: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._views = views
        self._idle_seconds = idle_seconds
        self._round_seconds = round_seconds
        self._clock = clock

    async def run(self) -> None:
        """Evict idle views until cancelled. While Redis is away, none leave."""
        while True:
            try:
                evicted = await self.evict_idle()
                if evicted:
                    log.info("views_evicted", count=evicted, idle_seconds=self._idle_seconds)
            except Exception as error:
                if not is_outage(error):
                    raise
                log.warning("view_janitor_held", reason=str(error))
            await asyncio.sleep(self._round_seconds)

    async def evict_idle(self) -> int:
        """Evict the views that are idle now; returns how many."""
        before = self._clock() - self._idle_seconds
        evicted = 0
        while idle := await self._views.idle(before, EVICTED_AT_ONCE):
            await self._views.evict(idle)
            evicted += len(idle)
            if len(idle) < EVICTED_AT_ONCE:
                break
        return evicted
