"""A steady pace for a job: one round an interval, and none of those it was too slow for."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable


class Pace:
    """Ticks an interval apart, counted from the first. A tick that passes while a round lasts is skipped."""

    def __init__(
        self,
        interval_seconds: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """The first tick is now."""
        self.skipped = 0
        self._interval_seconds = interval_seconds
        self._monotonic = monotonic
        self._sleep = sleep
        self._due = monotonic()

    async def tick(self) -> None:
        """Wait for the next tick."""
        passed = math.floor((self._monotonic() - self._due) / self._interval_seconds) + 1
        self._due += passed * self._interval_seconds
        self.skipped += passed - 1
        await self._sleep(self._due - self._monotonic())
