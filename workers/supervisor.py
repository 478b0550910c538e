"""The supervisor: runs the jobs of a process, starts those again that fail, and stops them in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from workers.grace import CANCEL_AGAIN_SECONDS

log = structlog.get_logger(__name__)

#: A job that ran this long before it failed starts again after the first pause.
SOUND_AFTER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class JobStatus:
    """What became of a job: whether it runs, how often it was started again, and why the last time.

    `last_error_at` is in Unix seconds.
    """

    running: bool = False
    restarts: int = 0
    last_error: str | None = None
    last_error_at: float | None = None


class Supervisor:
    """Runs jobs, each as a task.

    Args:
        jobs: by name, what to call to run one. A job runs until it is cancelled; one that returns is done.
        first_pause_seconds: wait before a job that failed is started again; doubled each time it fails soon.
        longest_pause_seconds: the longest such wait.
        stop_seconds: how long `stop` waits for jobs to end.
    """

    def __init__(
        self,
        jobs: Mapping[str, Callable[[], Awaitable[None]]],
        *,
        first_pause_seconds: float = 0.1,
        longest_pause_seconds: float = 30.0,
        stop_seconds: float = 15.0,
    ) -> None:
        self._jobs = dict(jobs)
        self._first_pause_seconds = first_pause_seconds
        self._longest_pause_seconds = longest_pause_seconds
        self._stop_seconds = stop_seconds
        self._status = dict.fromkeys(self._jobs, JobStatus())
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = False

    def start(self) -> None:
        """Start all jobs."""
        if self._tasks:
            raise RuntimeError("the jobs were started already")
        self._stopping = False
        self._tasks = {name: asyncio.get_running_loop().create_task(self._run(name), name=name) for name in self._jobs}

    async def stop(self) -> None:
        """Cancel all jobs and wait until they have put down what they held."""
        self._stopping = True
        running = set(self._tasks.values())
        self._tasks = {}
        deadline = time.monotonic() + self._stop_seconds
        while running and (left := deadline - time.monotonic()) > 0:
            for task in running:
                task.cancel()
            done, running = await asyncio.wait(running, timeout=min(left, CANCEL_AGAIN_SECONDS))
            for task in done:
                if not task.cancelled() and (error := task.exception()) is not None:
                    log.error("job_failed_while_stopping", job=task.get_name(), exc_info=error)
        for task in running:
            log.error("job_does_not_stop", job=task.get_name(), seconds=self._stop_seconds)

    def status(self) -> dict[str, JobStatus]:
        """What became of each job, by name."""
        return dict(self._status)

    async def _run(self, name: str) -> None:
        pause_seconds = self._first_pause_seconds
        while True:
            started = time.monotonic()
            self._set(name, running=True)
            try:
                await self._jobs[name]()
            except (Exception, asyncio.CancelledError) as error:
                self._set(name, running=False)
                if self._stopping:
                    raise
                # A cancellation that `stop` did not ask for came out of the job (of something it waited for).
                if time.monotonic() - started >= SOUND_AFTER_SECONDS:
                    pause_seconds = self._first_pause_seconds
                log.error("job_failed", job=name, again_in_seconds=pause_seconds, exc_info=error)
                self._set(
                    name,
                    restarts=self._status[name].restarts + 1,
                    last_error=f"{type(error).__name__}: {error}",
                    last_error_at=time.time(),
                )
            else:
                self._set(name, running=False)
                log.info("job_done", job=name)
                return
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, self._longest_pause_seconds)

    def _set(self, name: str, **changes: object) -> None:
        self._status[name] = replace(self._status[name], **changes)  # type: ignore[arg-type]  # names of its fields
