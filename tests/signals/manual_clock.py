"""Clocks that stand still until a test moves them."""

from __future__ import annotations


class ManualClock:
    """Redis's clock, and the steady one of a process."""

    def __init__(self, ms: int = 1_800_000_000_000) -> None:
        self._ms = ms
        self._steady_ms = 0

    def ms(self) -> int:
        """Redis's clock, in Unix milliseconds."""
        return self._ms

    def monotonic(self) -> float:
        """The process's clock, in seconds."""
        return self._steady_ms / 1000

    def advance(self, ms: int) -> None:
        """Time passes."""
        self._ms += ms
        self._steady_ms += ms

    def step(self, ms: int) -> None:
        """Somebody sets Redis's clock forward or back."""
        self._ms += ms
