"""What must hold when nothing is in flight any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.storm.view_invariants import WrongCountError, check_at_end

if TYPE_CHECKING:
    from tests.storm.view_schedule import Schedule


async def compare_residents(schedule: Schedule) -> int:
    """I3: whoever has a view has the truth, once it was read. Returns how many there are.

    Raises:
        WrongCountError: one has not.
    """
    schedule.troupe.clock += 1
    await schedule.lengths.pass_on(schedule.random, 1.0, schedule.troupe.clock)
    counts = await asyncio.gather(*map(schedule.real_views.counts, schedule.users))
    residents = [viewer_id for viewer_id, held in zip(schedule.users, counts, strict=True) if held is not None]
    await schedule.read_pages(residents)
    views = await asyncio.gather(*map(schedule.real_views.view, residents))
    for viewer_id, view in zip(residents, views, strict=True):
        truth = schedule.graph.truth(viewer_id)
        check_at_end(viewer_id, view, schedule.graph.logs)
        if view is None or view.counts != truth:
            raise WrongCountError(f"I3: {viewer_id} has {view} for {truth}")
    return len(residents)


async def build_all(schedule: Schedule) -> None:
    """Whoever has no view, or a dead builder, has one after some reads.

    Raises:
        WrongCountError: one has none, or another one than the truth says.
    """
    for _ in range(50):  # each read claims as though ten seconds had passed in three of ten
        answers = await asyncio.gather(*map(schedule.real_views.counts, schedule.users))
        counts = dict(zip(schedule.users, answers, strict=True))
        if all(held is not None for held in counts.values()):
            break
        await schedule.read_pages([viewer_id for viewer_id, held in counts.items() if held is None])
    for viewer_id, held in counts.items():
        if held != schedule.graph.truth(viewer_id):
            raise WrongCountError(f"built last: {viewer_id} has {held} for {schedule.graph.truth(viewer_id)}")
