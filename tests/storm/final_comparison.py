"""What must hold when nothing is in flight any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.storm.view_invariants import WrongCountError, check_at_end

if TYPE_CHECKING:
    from tests.storm.view_schedule import Schedule


async def compare_residents(schedule: Schedule) -> int:
    """I3: whoever has a view has the truth, once it was read. Returns how many there are.

    Raises:
        WrongCountError: one has not.
    """
    compared = 0
    schedule.troupe.clock += 1
    await schedule.lengths.pass_on(schedule.random, 1.0, schedule.troupe.clock)
    for viewer_id in schedule.users:
        if await schedule.real_views.counts(viewer_id) is None:
            continue
        await schedule.troupe.finish(schedule.read_page(viewer_id, schedule.web[0], schedule.graph))
        view, truth = await schedule.real_views.view(viewer_id), schedule.graph.truth(viewer_id)
        compared += 1
        check_at_end(viewer_id, view, schedule.graph.logs)
        if view is None or view.counts != truth:
            raise WrongCountError(f"I3: {viewer_id} has {view} for {truth}")
    return compared


async def build_all(schedule: Schedule) -> None:
    """Whoever has no view, or a dead builder, has one after some reads.

    Raises:
        WrongCountError: one has none, or another one than the truth says.
    """
    for viewer_id in schedule.users:
        for _ in range(50):  # each read claims as though ten seconds had passed in three of ten
            if (counts := await schedule.real_views.counts(viewer_id)) is not None:
                break
            await schedule.troupe.finish(schedule.read_page(viewer_id, schedule.web[1], schedule.graph))
        if counts != schedule.graph.truth(viewer_id):
            raise WrongCountError(f"built last: {viewer_id} has {counts} for {schedule.graph.truth(viewer_id)}")
