"""Something to be done once, at a time that may be years away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Event loops take no timers of centuries, and tokens may live as long.
_LONGEST_TIMER_SECONDS = 86_400.0


class Deadline:
    """Calls back in `seconds`, at once where they have passed, unless it is cancelled before."""

    def __init__(self, seconds: float, call: Callable[[], object]) -> None:
        self._left = max(seconds, 0.0)
        self._call = call
        self._timer = self._begin()

    def cancel(self) -> None:
        """Do not call."""
        self._timer.cancel()

    def _begin(self) -> asyncio.TimerHandle:
        step = min(self._left, _LONGEST_TIMER_SECONDS)
        self._left -= step
        return asyncio.get_running_loop().call_later(step, self._due)

    def _due(self) -> None:
        if self._left > 0:
            self._timer = self._begin()
        else:
            self._call()
