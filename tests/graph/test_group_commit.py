"""Group commit: who shares a transaction, what a broken row costs the others, and what a cancelled caller does not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from graph.group_commit import GroupCommit
from graph.social_graph import TruthUnavailableError, UnknownGameError


class Store:
    """Keeps what is committed. `bad` rows break their batch; `gate` holds every commit until it is opened."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.batches: list[list[int]] = []
        self.bad: set[int] = set()
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(self, rows: list[int]) -> Sequence[int | Exception]:
        self.batches.append(list(rows))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        if self.bad & set(rows):
            raise ZeroDivisionError
        self.kept += rows
        return [UnknownGameError(row) if row < 0 else row * 10 for row in rows]


@pytest.fixture
def store() -> Store:
    return Store()


async def test_what_arrives_in_one_tick_is_one_batch(store: Store) -> None:
    commits = GroupCommit(store.commit)
    assert await asyncio.gather(*(commits.submit(row) for row in range(50))) == [row * 10 for row in range(50)]
    assert store.batches == [list(range(50))]


async def test_what_arrives_while_a_commit_runs_is_the_next_batch(store: Store) -> None:
    commits = GroupCommit(store.commit)
    store.gate.clear()
    first = commits.submit(1)
    await asyncio.sleep(0)
    later = [commits.submit(row) for row in (2, 3, 4)]
    await asyncio.sleep(0)
    later.append(commits.submit(5))
    store.gate.set()
    assert await asyncio.gather(first, *later) == [10, 20, 30, 40, 50]
    assert store.batches == [[1], [2, 3, 4, 5]]


async def test_no_batch_is_longer_than_allowed(store: Store) -> None:
    commits = GroupCommit(store.commit, max_rows=4)
    await asyncio.gather(*(commits.submit(row) for row in range(10)))
    assert store.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


async def test_gathering_waits_for_company(store: Store) -> None:
    commits = GroupCommit(store.commit, gather_seconds=0.05)
    first = commits.submit(1)
    for _ in range(3):
        await asyncio.sleep(0)
    second = commits.submit(2)
    await asyncio.gather(first, second)
    assert store.batches == [[1, 2]]


@pytest.mark.parametrize("bad", [{0}, {7}, {15}, {3, 4, 11}, set(range(16))])
async def test_a_batch_that_a_row_breaks_is_halved(store: Store, bad: set[int]) -> None:
    store.bad = bad
    commits = GroupCommit(store.commit)
    answers = await asyncio.gather(*(commits.submit(row) for row in range(16)), return_exceptions=True)
    for row, answer in enumerate(answers):
        assert isinstance(answer, ZeroDivisionError) if row in bad else answer == row * 10
    assert store.kept == [row for row in range(16) if row not in bad]  # still in the order of the callers


async def test_an_exception_as_an_answer_is_its_callers_alone(store: Store) -> None:
    commits = GroupCommit(store.commit)
    good, bad = commits.submit(1), commits.submit(-1)
    assert await good == 10
    with pytest.raises(UnknownGameError):
        await bad
    assert store.batches == [[1, -1]]


async def test_a_store_that_fails_fails_everyone_once_and_heals(store: Store) -> None:
    store.failure = TruthUnavailableError("the disk is full")
    commits = GroupCommit(store.commit)
    answers = await asyncio.gather(*(commits.submit(row) for row in range(8)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["the disk is full"] * 8
    assert len({id(answer) for answer in answers}) == 8
    assert len(store.batches) == 1  # not halved: it was nobody's row
    store.failure = None
    assert await commits.submit(1) == 10


async def test_a_cancelled_caller_cancels_nothing(store: Store) -> None:
    commits = GroupCommit(store.commit)
    store.gate.clear()
    futures = [commits.submit(row) for row in range(4)]
    await asyncio.sleep(0)
    futures[1].cancel()
    store.gate.set()
    answers = await asyncio.gather(*futures, return_exceptions=True)
    assert [answers[0], *answers[2:]] == [0, 20, 30]
    assert isinstance(answers[1], asyncio.CancelledError)
    assert store.kept == [0, 1, 2, 3]


async def test_closing_finishes_what_was_accepted_and_takes_no_more(store: Store) -> None:
    commits = GroupCommit(store.commit, max_rows=2)
    futures = [commits.submit(row) for row in range(5)]
    await commits.close()
    assert [future.result() for future in futures] == [0, 10, 20, 30, 40]
    with pytest.raises(TruthUnavailableError, match="closed"):
        commits.submit(6)


async def test_a_loop_that_goes_down_leaves_no_caller_waiting(store: Store) -> None:
    commits = GroupCommit(store.commit)
    store.gate.clear()
    running = commits.submit(1)
    await asyncio.sleep(0)
    waiting = commits.submit(2)
    (task,) = [task for task in asyncio.all_tasks() if "GroupCommit" in repr(task.get_coro())]
    task.cancel()
    answers = await asyncio.gather(running, waiting, return_exceptions=True)
    assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 2
