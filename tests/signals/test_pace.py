"""Rounds keep their pace, and a round that was too slow is skipped and not made up for."""

from __future__ import annotations

from signals.pace import Pace
from tests.signals.manual_clock import ManualClock


async def test_rounds_start_an_interval_apart_and_slow_ones_skip() -> None:
    clock = ManualClock()

    async def sleep(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    pace = Pace(1.0, monotonic=clock.monotonic, sleep=sleep)
    started = []
    for took_ms in (0, 300, 999, 2500, 100, 1000, 0):
        started.append(clock.monotonic())
        clock.advance(took_ms)
        await pace.tick()
    assert started == [0, 1, 2, 3, 6, 7, 9]
    assert pace.skipped == 3
