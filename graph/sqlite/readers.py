"""A small pool of reading connections, each query one short transaction in a thread."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from graph.query_count import count_query
from graph.social_graph import TruthUnavailableError
from graph.sqlite.failures import told_as_unavailable
from graph.sqlite.truth_file import READER_CACHE_KIB, TruthFile

Answer = TypeVar("Answer")

READERS = 4


class Readers:
    """Runs queries beside the writer. A query sees every write that was answered before it was asked."""

    def __init__(self, file: TruthFile) -> None:
        self._file = file
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="truth-reader")
        self._idle: deque[sqlite3.Connection] = deque()  # append and pop are atomic
        self._closed = False

    async def read(self, query: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Run a query, counted on the caller's account.

        Raises:
            TruthUnavailableError: the store failed or is closed.
        """
        if self._closed:
            raise TruthUnavailableError("the truth is closed")
        count_query()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, query)

    async def close(self) -> None:
        """Finish the queries that run, then close the connections."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        while self._idle:
            self._idle.pop().close()

    def _run(self, query: Callable[[sqlite3.Connection], Answer]) -> Answer:
        with told_as_unavailable(self._file.path):
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._file.connect(cache_kib=READER_CACHE_KIB)
                connection.execute("PRAGMA query_only = ON")
            try:
                return query(connection)
            finally:
                self._idle.append(connection)
