"""Letting a step that was begun come to its end when its job is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def with_grace(step: Coroutine[Any, Any, T], seconds: float) -> T:
    """Run `step`. Cancelled meanwhile, give it `seconds` to end before it is cancelled too.

    Raises:
        asyncio.CancelledError: this was cancelled, whatever became of the step.
    """
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
