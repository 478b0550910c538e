"""The supervisor: jobs that fail start again, and stopping waits until all have put down what they held."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import pairwise

import pytest

from tests.waiting import until
from workers.supervisor import Supervisor


def supervise(jobs: Mapping[str, Callable[[], Awaitable[None]]], stop_seconds: float = 15.0) -> Supervisor:
    return Supervisor(jobs, first_pause_seconds=0.001, longest_pause_seconds=0.004, stop_seconds=stop_seconds)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_job_that_fails_starts_again_and_says_why() -> None:
    runs = 0

    async def failing() -> None:
        nonlocal runs
        runs += 1
        if runs <= 3:
            raise ZeroDivisionError(f"run {runs}")
        await forever()

    supervisor = supervise({"failing": failing, "sound": forever})
    assert not supervisor.status()["failing"].running
    supervisor.start()
    await until(lambda: runs == 4)
    status = supervisor.status()["failing"]
    assert (status.running, status.restarts, status.last_error) == (True, 3, "ZeroDivisionError: run 3")
    assert status.last_error_at is not None
    sound = supervisor.status()["sound"]
    assert (sound.running, sound.restarts, sound.last_error) == (True, 0, None)
    await supervisor.stop()
    assert not any(status.running for status in supervisor.status().values())


async def test_pauses_grow_up_to_the_longest() -> None:
    started: list[float] = []

    async def failing() -> None:
        started.append(asyncio.get_running_loop().time())
        raise ZeroDivisionError

    supervisor = Supervisor({"failing": failing}, first_pause_seconds=0.02, longest_pause_seconds=0.08)
    supervisor.start()
    await until(lambda: len(started) == 6)
    await supervisor.stop()
    pauses = [later - earlier for earlier, later in pairwise(started)]
    assert all(pause >= least for pause, least in zip(pauses, [0.02, 0.04, 0.08, 0.08, 0.08], strict=True))


async def test_a_job_that_returns_is_done() -> None:
    runs = 0

    async def once() -> None:
        nonlocal runs
        runs += 1

    supervisor = supervise({"once": once})
    supervisor.start()
    await until(lambda: runs == 1 and not supervisor.status()["once"].running)
    await supervisor.stop()
    assert (runs, supervisor.status()["once"].restarts) == (1, 0)


async def test_a_cancellation_that_comes_out_of_a_job_is_a_failure_like_others() -> None:
    runs = 0

    async def cancelled_once() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise asyncio.CancelledError
        await forever()

    supervisor = supervise({"job": cancelled_once})
    supervisor.start()
    await until(lambda: runs == 2)
    await supervisor.stop()
    assert supervisor.status()["job"].restarts == 1


async def test_stop_waits_for_what_jobs_put_down() -> None:
    put_down = False

    async def careful() -> None:
        nonlocal put_down
        try:
            await forever()
        finally:
            await asyncio.sleep(0.02)
            put_down = True

    supervisor = supervise({"careful": careful})
    supervisor.start()
    await asyncio.sleep(0)
    await supervisor.stop()
    assert put_down
    await supervisor.stop()  # again: nothing


async def test_a_job_that_loses_a_cancellation_is_cancelled_again() -> None:
    cancellations = 0

    async def losing() -> None:
        nonlocal cancellations
        while True:
            try:
                await forever()
            except asyncio.CancelledError:
                cancellations += 1
                if cancellations == 3:
                    raise

    supervisor = supervise({"losing": losing})
    supervisor.start()
    await asyncio.sleep(0)
    await supervisor.stop()
    assert cancellations == 3
    assert not supervisor.status()["losing"].running


async def test_stop_gives_up_on_a_job_that_does_not_end() -> None:
    let_go = asyncio.Event()
    ended = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        ended.set()

    supervisor = supervise({"stubborn": stubborn}, stop_seconds=0.05)
    supervisor.start()
    await asyncio.sleep(0)
    await supervisor.stop()
    assert supervisor.status()["stubborn"].running
    let_go.set()
    await ended.wait()


async def test_a_job_that_fails_while_it_is_stopped_does_not_start_again() -> None:
    runs = 0

    async def failing() -> None:
        nonlocal runs
        runs += 1
        try:
            await forever()
        except asyncio.CancelledError:
            raise ZeroDivisionError from None

    supervisor = supervise({"failing": failing})
    supervisor.start()
    await asyncio.sleep(0)
    await supervisor.stop()
    assert runs == 1


async def test_jobs_are_not_started_twice() -> None:
    supervisor = supervise({"job": forever})
    supervisor.start()
    with pytest.raises(RuntimeError):
        supervisor.start()
    await supervisor.stop()
