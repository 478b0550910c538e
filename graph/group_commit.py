"""Group commit: what arrived while the last commit ran becomes one transaction, for many callers.

A durable commit costs about the same for one row as for hundreds, so callers share it. One commit is in flight at a
time: rows are committed in the order in which they were submitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from graph.social_graph import TruthReplacedError, TruthUnavailableError

Row = TypeVar("Row")
Answer = TypeVar("Answer")


class GroupCommit(Generic[Row, Answer]):
    """Rows of many callers, a transaction a batch, an answer a row.

    Args:
        commit: writes a batch in one transaction and returns an answer a row, in order; an answer that is an exception
            is raised to that row's caller alone. When it raises, nothing of the batch was kept: the batch is halved
            until the row that breaks it stands alone. Only `TruthUnavailableError` and `TruthReplacedError` go to
            every caller of the batch, since they are nobody's row.
        max_rows: the longest batch.
        gather_seconds: how long a batch waits for company; 0 is until the end of the event loop's tick. Worth more
            than 0 where a commit costs a network round trip.
    """

    def __init__(
        self,
        commit: Callable[[list[Row]], Awaitable[Sequence[Answer | Exception]]],
        *,
        max_rows: int = 1024,
        gather_seconds: float = 0.0,
    ) -> None:
        self._commit = commit
        self._max_rows = max_rows
        self._gather_seconds = gather_seconds
        self._waiting: list[tuple[Row, asyncio.Future[Answer]]] = []
        self._running: asyncio.Task[None] | None = None
        self._closed = False

    def submit(self, row: Row) -> asyncio.Future[Answer]:
        """Accept a row. The future has its answer once the row is durable; cancelling it cancels nothing else.

        Raises:
            TruthUnavailableError: closed.
        """
        if self._closed:
            raise TruthUnavailableError("the truth is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((row, future))
        if self._running is None:
            self._running = loop.create_task(self._run())
        return future

    async def close(self) -> None:
        """Accept no more rows and finish those that were accepted."""
        self._closed = True
        if self._running is not None:
            await asyncio.shield(self._running)

    async def _run(self) -> None:
        try:
            while self._waiting:
                if self._gather_seconds and len(self._waiting) < self._max_rows:
                    await asyncio.sleep(self._gather_seconds)
                batch = self._waiting[: self._max_rows]
                del self._waiting[: self._max_rows]
                await self._settle(batch)
        finally:
            self._running = None
            for _, future in self._waiting:  # only where the task itself was cancelled: the loop is going down
                future.cancel()
            self._waiting.clear()

    async def _settle(self, batch: list[tuple[Row, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._commit([row for row, _ in batch])
        except (TruthUnavailableError, TruthReplacedError) as error:
            # An exception of its own a caller: raising one in many tasks would pile up their tracebacks on it.
            answers = [type(error)(*error.args) for _ in batch]
        except Exception as error:
            if len(batch) > 1:
                half = len(batch) // 2
                await self._settle(batch[:half])
                await self._settle(batch[half:])
                return
            answers = [error]
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue  # its caller went away; the row is written all the same
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
