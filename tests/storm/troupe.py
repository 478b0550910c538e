"""All tasks that a schedule has begun, on one stage, and the clock that they go by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tests.storm.stage import Stage
from tests.storm.view_invariants import WrongCountError

Ended = Callable[["asyncio.Task[None]"], None]

#: Store calls within which a task comes to its end when nothing else goes wrong.
MOST_CALLS = 3_000
#: How long nobody may come to an end; then it is looked whether they go round in circles.
SECONDS_TO_FINISH = 0.5


class Troupe:
    """Begins tasks and lets them go on.

    Args:
        random: every choice.
        faults: whether something may go wrong.
    """

    def __init__(self, random: Random, *, faults: bool = True) -> None:
        self.random = random
        self.faults = faults
        self.clock = 0
        self.stage = Stage()
        #: What was found to be wrong; those in whose call it was found may have taken it for a failed call.
        self.wrong: WrongCountError | None = None
        self._tasks: dict[asyncio.Task[None], Ended] = {}

    @property
    def busy(self) -> bool:
        """Whether anybody is under way."""
        return bool(self._tasks or self.stage.gates)

    def start(self, coroutine: Coroutine[Any, Any, None], ended: Ended | None = None) -> asyncio.Task[None]:
        """Begin a task. `ended` is called with it when it is done; without one, what it raises is raised."""
        task = asyncio.create_task(coroutine)
        self._tasks[task] = ended or raise_failure
        return task

    def collect(self) -> None:
        """Take leave of those who are done.

        Raises:
            WrongCountError: something was found to be wrong.
        """
        if self.wrong is not None:
            raise self.wrong
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.pop(task)(task)

    async def finish(self, coroutine: Coroutine[Any, Any, None] | None = None) -> None:
        """Let all go on until they are done, in whatever order; one that begins now, too."""
        stage = self.stage
        if coroutine is not None:
            self.start(coroutine)
        most = stage.passed + MOST_CALLS
        stage.free(True)
        await stage.settle()
        while waited_for := {*self._tasks, *stage.passing}:
            await asyncio.wait(waited_for, timeout=SECONDS_TO_FINISH, return_when=asyncio.FIRST_COMPLETED)
            await stage.settle()
            self.collect()
            if stage.passed > most:
                raise WrongCountError(f"no end after {MOST_CALLS} calls")
        stage.free(False)

    async def stop(self) -> None:
        """End everybody, wherever they are."""
        tasks = {*self._tasks, *self.stage.passing, *(gate.task for gate in self.stage.gates)}
        while tasks:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.stage.settle()
            tasks = {*self.stage.passing, *(gate.task for gate in self.stage.gates)}
        self._tasks.clear()


def raise_failure(task: asyncio.Task[None]) -> None:
    """Whoever was killed is gone; what else failed is raised."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
