"""The one writer of a process: transactions on one connection in one thread, each durable before it is answered."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias, TypeVar

from graph.changes import EdgeChange, Play, UserChange
from graph.social_graph import GraphError
from graph.sqlite.failures import told_as_unavailable
from graph.sqlite.friendships import change_edges
from graph.sqlite.plays import record_plays
from graph.sqlite.transaction import Transaction
from graph.sqlite.truth_file import BUSY_SECONDS, WRITER_CACHE_KIB, TruthFile, immediate
from graph.sqlite.users import change_users

#: A write that can share a transaction. Those of the first three kinds are written many at a time.
Write: TypeAlias = Play | EdgeChange | UserChange | Callable[[Transaction], object]
Answer = TypeVar("Answer")

#: Readers that never let go keep the WAL growing; past this one process waits for them and starts it again.
WAL_RESTART_BYTES = 64 << 20
WAL_RESTART_WAIT_MS = 200  # a reader holds its transaction for 20 ms
WAL_RESTART_AGAIN_SECONDS = 1.0


class Committed(NamedTuple):
    """What a transaction answered, and whether it wrote outbox rows."""

    answer: object
    told: bool


class Writer:
    """Runs transactions. Every method but the constructor is called in the writer's thread."""

    def __init__(self, file: TruthFile, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock
        self._connection = file.connect(cache_kib=WRITER_CACHE_KIB)
        self._connection.execute("PRAGMA busy_timeout = 0")  # BEGIN IMMEDIATE is asked by `when_free`
        self._last_restart = 0.0

    def commit(self, writes: Sequence[Write]) -> Committed:
        """Run the writes of many callers, in order, in one transaction. Its answer is a list, one a write."""
        return self.transaction(lambda transaction: run_writes(transaction, writes))

    def transaction(self, work: Callable[[Transaction], object]) -> Committed:
        """Run `work` in one transaction together with the outbox rows that it tells.

        Raises:
            TruthUnavailableError, TruthReplacedError: nothing was kept here.
        """
        with told_as_unavailable(self._file.path):
            with immediate(self._connection, BUSY_SECONDS):
                self._check_truth()
                transaction = Transaction(self._connection, int(self._clock() * 1000))
                answer = work(transaction)
                told = transaction.write_outbox()
            self._file.check_in_place()  # also behind the commit: it may have gone to a file already moved away
            self._restart_long_wal()
        return Committed(answer, told)

    def close(self) -> None:
        """Close the connection. The last one of all processes copies the WAL back and removes it."""
        self._connection.close()

    def _check_truth(self) -> None:
        self._file.check_in_place()
        (truth_id,) = self._connection.execute("SELECT id FROM truth").fetchone()
        self._file.check_truth_id(truth_id)

    def _restart_long_wal(self) -> None:
        try:
            size = os.stat(self._file.wal_path).st_size  # noqa: PTH116  # as in TruthFile: on the path of every write
        except FileNotFoundError:
            return
        now = time.monotonic()
        if size <= WAL_RESTART_BYTES or now - self._last_restart < WAL_RESTART_AGAIN_SECONDS:
            return
        self._last_restart = now
        self._connection.execute(f"PRAGMA busy_timeout = {WAL_RESTART_WAIT_MS}")
        try:
            # Answers "busy" and changes nothing where another process is at it or a reader stays: next time, then.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError:
            pass  # the commit stands; a disk that fails will say so at the next one
        finally:
            self._connection.execute("PRAGMA busy_timeout = 0")


def run_writes(transaction: Transaction, writes: Sequence[Write]) -> list[object]:
    """Run writes in order, neighbours of one kind together. An answer that is an exception is its caller's own."""
    answers: list[object] = []
    for kind, neighbours in groupby(writes, key=type):
        run = list(neighbours)
        if kind is Play:
            answers += record_plays(transaction, [write for write in run if isinstance(write, Play)])
        elif kind is EdgeChange:
            answers += change_edges(transaction, [write for write in run if isinstance(write, EdgeChange)])
        elif kind is UserChange:
            answers += change_users(transaction, [write for write in run if isinstance(write, UserChange)])
        else:
            answers += [_run_alone(transaction, write) for write in run if callable(write)]
    return answers


def _run_alone(transaction: Transaction, write: Callable[[Transaction], object]) -> object:
    try:
        return write(transaction)
    except GraphError as error:  # raised before anything was written
        return error
