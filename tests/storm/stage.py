"""A stage: coroutines that go on one store call at a time, in the order a schedule chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

#: The task of the worker on whose account a call is made; none for what a process does by itself.
worker: ContextVar[asyncio.Task[None] | None] = ContextVar("worker", default=None)


@dataclass(eq=False)
class Gate:
    """A store call that waits to be let through."""

    name: str
    task: asyncio.Task[Any]
    worker: asyncio.Task[None] | None
    opened: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    passed: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Stage:
    """Holds every store call at a gate until the schedule opens it; or lets all pass, where order is of no interest."""

    def __init__(self) -> None:
        self.gates: list[Gate] = []
        self.passing: set[asyncio.Task[Any]] = set()
        self.passed = 0
        self._free = False

    def free(self, free: bool) -> None:
        """Let all calls through from now on, those that wait too, or none any more."""
        self._free = free
        if free:
            gates, self.gates = self.gates, []
            for gate in gates:
                self.passing.add(gate.task)
                gate.opened.set_result(None)

    async def call(self, name: str, method: Callable[[], Awaitable[Any]]) -> Any:
        """Wait for the gate, then make the call."""
        task = asyncio.current_task()
        assert task is not None
        if self._free:
            self.passed += 1
            self.passing.add(task)
            try:
                return await method()
            finally:
                self.passing.discard(task)
        gate = Gate(name, task, worker.get())
        self.gates.append(gate)
        try:
            await gate.opened
        except asyncio.CancelledError:
            if gate in self.gates:
                self.gates.remove(gate)
            self.passing.discard(task)
            raise
        try:
            return await method()
        finally:
            self.passing.discard(task)
            gate.passed.set_result(None)

    async def open(self, gate: Gate) -> None:
        """Let one call through, and wait until it is done; `settle` waits for what follows."""
        self.gates.remove(gate)
        gate.opened.set_result(None)
        await gate.passed

    def fail(self, gate: Gate, error: Exception) -> None:
        """Have a call fail that was never made."""
        self.gates.remove(gate)
        gate.opened.set_exception(error)

    async def settle(self) -> None:
        """Wait until nothing moves any more but by a gate: the event loop has nothing to run but this."""
        loop: Any = asyncio.get_running_loop()
        await asyncio.sleep(0)
        while loop._ready:  # noqa: ASYNC110  # the loop tells nobody else
            await asyncio.sleep(0)


class Gated:
    """An object whose listed methods go through the stage; `around` may do something else than call once.

    `plain` are attributes that are no store calls.
    """

    def __init__(
        self,
        target: object,
        stage: Stage,
        methods: frozenset[str],
        around: Callable[[str, tuple[Any, ...], Callable[[], Awaitable[Any]]], Awaitable[Any]],
        plain: frozenset[str] = frozenset(),
    ) -> None:
        self._target = target
        self._stage = stage
        self._methods = methods
        self._around = around
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        if name in self._plain:
            return getattr(self._target, name)
        if name not in self._methods:
            raise AttributeError(f"{name} is not a call of the schedules")
        method = getattr(self._target, name)

        async def call(*args: Any, **options: Any) -> Any:
            return await self._stage.call(name, lambda: self._around(name, args, lambda: method(*args, **options)))

        return call
