"""Events that are the same for many subscribers, executed and encoded once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Generic, TypeVar

Result = TypeVar("Result")

#: How long an answer may be given again. Keys name the recount an event is of, so this bounds memory, not age.
KEPT_SECONDS = 1.0
MOST_KEPT = 1_000


class SharedAnswers(Generic[Result]):
    """What was made for a key a moment ago. Past `MOST_KEPT` keys everybody makes their own."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Result]] = {}
        self.made = 0

    async def get(self, key: Hashable, make: Callable[[], Coroutine[object, object, Result]]) -> Result:
        """The answer for a key: made now, or by whoever asked first. Raises what making it raised."""
        task = self._tasks.get(key)
        if task is None:
            self.made += 1
            if len(self._tasks) >= MOST_KEPT:
                return await make()
            # In a task of its own: whoever asked first may go away before the others have their answer.
            task = self._tasks[key] = asyncio.create_task(make(), name="shared-answer")
            asyncio.get_running_loop().call_later(KEPT_SECONDS, self._tasks.pop, key, None)
        return await asyncio.shield(task)
