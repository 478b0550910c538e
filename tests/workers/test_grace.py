"""A step that was begun comes to its end, or is ended, when its job is stopped."""

from __future__ import annotations

import asyncio
import gc

import pytest
from structlog.testing import capture_logs

from workers.grace import finish, with_grace


async def cancel(task: asyncio.Task[None], times: int) -> None:
    """Cancel it, and let it notice each time."""
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_a_steps_result_and_error_come_through() -> None:
    async def answer() -> int:
        return 7

    async def fail() -> None:
        raise ZeroDivisionError

    assert await with_grace(answer(), 1) == 7
    with pytest.raises(ZeroDivisionError):
        await with_grace(fail(), 1)


@pytest.mark.parametrize("cancellations", [1, 3])
async def test_a_step_ends_before_its_cancelled_job_does(cancellations: int) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()
    steps: list[str] = []

    async def step() -> None:
        begun.set()
        await let_go.wait()
        steps.append("step")

    async def job() -> None:
        try:
            await with_grace(step(), 60)
        finally:
            steps.append("job")

    task = asyncio.create_task(job())
    await begun.wait()
    await cancel(task, cancellations)
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["step", "job"]


async def test_a_step_that_takes_too_long_is_cancelled() -> None:
    begun = asyncio.Event()
    ended: list[str] = []

    async def step() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("step")

    task = asyncio.create_task(with_grace(step(), 0.01))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["step"]


@pytest.mark.parametrize("cancellations", [1, 3])
async def test_a_step_that_fails_meanwhile_does_not_hide_the_cancellation(cancellations: int) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()
    untold: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: untold.append(context))

    async def step() -> None:
        begun.set()
        await let_go.wait()
        raise ZeroDivisionError

    with capture_logs() as logs:
        task = asyncio.create_task(with_grace(step(), 60))
        await begun.wait()
        await cancel(task, cancellations)
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        gc.collect()  # asyncio tells of an error that nobody took when its task goes
    assert [line["event"] for line in logs] == ["step_failed_while_stopping"]
    assert untold == []


async def test_a_task_that_loses_cancellations_is_cancelled_until_it_ends() -> None:
    lost = 0

    async def losing() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    task = asyncio.create_task(losing())
    await asyncio.sleep(0)
    await finish(task, 0)
    assert task.cancelled()
    assert lost == 3
