"""A stage: coroutines that go on one store call at a time, in the order a schedule chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

#: The task of the worker on whose account a call is made; none for what a process does by itself.
worker: ContextVar[asyncio.Task[None] | None] = ContextVar("worker", default=None)

#: Turns of the event loop after a store call within which whoever waits for it has come to the next call.
TURNS = 8


@dataclass(eq=False)
class Gate:
    """A store call that waits to be let through."""

    name: str
    task: asyncio.Task[Any]
    worker: asyncio.Task[None] | None
    opened: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    passed: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Stage:
    """Holds every store call at a gate until the schedule opens it."""

    def __init__(self) -> None:
        self.gates: list[Gate] = []

    async def call(self, name: str, method: Callable[[], Awaitable[Any]]) -> Any:
        """Wait for the gate, then make the call."""
        task = asyncio.current_task()
        assert task is not None
        gate = Gate(name, task, worker.get())
        self.gates.append(gate)
        try:
            await gate.opened
        except asyncio.CancelledError:
            self.gates.remove(gate)
            raise
        try:
            return await method()
        finally:
            gate.passed.set_result(None)

    async def open(self, gate: Gate) -> None:
        """Let one call through, and wait until it is done; `settle` waits for what follows."""
        self.gates.remove(gate)
        gate.opened.set_result(None)
        await gate.passed

    async def settle(self) -> None:
        """Wait until nothing moves any more but by a gate."""
        for _ in range(TURNS):
            await asyncio.sleep(0)


class Gated:
    """An object whose listed methods go through the stage; `around` may do something else than call once."""

    def __init__(
        self,
        target: object,
        stage: Stage,
        methods: frozenset[str],
        around: Callable[[str, tuple[Any, ...], Callable[[], Awaitable[Any]]], Awaitable[Any]],
    ) -> None:
        self._target = target
        self._stage = stage
        self._methods = methods
        self._around = around

    def __getattr__(self, name: str) -> Any:
        if name not in self._methods:
            raise AttributeError(f"{name} is not a call of the schedules")
        method = getattr(self._target, name)

        async def call(*args: Any) -> Any:
            return await self._stage.call(name, lambda: self._around(name, args, lambda: method(*args)))

        return call
