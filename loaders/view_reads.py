"""When views were last read, told to Redis now and then: a view unread for a day leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog
from redis.exceptions import RedisError

from signals.views import FriendViews

log = structlog.get_logger(__name__)


class ViewReads:
    """Collects the viewers whose views this process read and touches them once an interval."""

    def __init__(
        self, views: FriendViews, *, interval_seconds: float = 60.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._views = views
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._read: set[int] = set()

    def read(self, viewer_id: int) -> None:
        """Note that this viewer's view was read."""
        self._read.add(viewer_id)

    async def flush(self) -> None:
        """Touch the views read since the last time. Redis away: they are kept for the next time."""
        read, self._read = self._read, set()
        if not read:
            return
        try:
            await self._views.touch(list(read), self._clock())
        except (RedisError, OSError) as error:
            self._read |= read
            log.warning("view_reads_kept_back", reason=repr(error))

    async def run(self) -> None:
        """Flush once an interval, and once more at the end."""
        try:
            while True:
                await asyncio.sleep(self._interval_seconds)
                await self.flush()
        finally:
            await self.flush()
