"""Ending tasks: letting a step that was begun come to its end when its job is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

T = TypeVar("T")
log = structlog.get_logger(__name__)

#: A task that was cancelled is cancelled again after this. `asyncio.wait_for` of Python 3.11, through which redis-py
#: sends, loses a cancellation that arrives together with what it waits for.
CANCEL_AGAIN_SECONDS = 0.25


async def with_grace(step: Coroutine[Any, Any, T], seconds: float) -> T:
    """Run `step`. Cancelled meanwhile, give it `seconds` to end before it is cancelled too.

    Raises:
        asyncio.CancelledError: this was cancelled, whatever became of the step.
    """
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await finish(task, seconds)
        finally:  # cancelled once more or not: how the step ended is told here or by nobody
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("step_failed_while_stopping", reason=f"{type(error).__name__}: {error}")
        raise


async def finish(task: asyncio.Future[Any], seconds: float) -> None:
    """Give a task `seconds` to end, then cancel it; return when it is over.

    Raises:
        asyncio.CancelledError: this was cancelled meanwhile. The task had its time and is over all the same.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    cancelled = False
    while not task.done():
        left = deadline - loop.time()
        if left <= 0:
            task.cancel()
        try:
            await asyncio.wait({task}, timeout=left if left > 0 else CANCEL_AGAIN_SECONDS)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
