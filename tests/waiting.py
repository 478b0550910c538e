"""Waiting for something that other tasks bring about."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], bool | Awaitable[bool]], *, seconds: float = 20.0) -> None:
    """Return once the condition holds; fail when it does not within a deadline."""
    async with asyncio.timeout(seconds):
        while True:
            answer = condition()
            if inspect.isawaitable(answer):
                answer = await answer
            if answer:
                return
            await asyncio.sleep(0.005)
