"""One Neo4j database: the driver, and calls that outlive a deadlock, a new leader or a caller who goes away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

import neo4j

from graph.neo4j.failures import STORE_ERRORS, is_away, passes, told_unavailable
from graph.social_graph import TruthUnavailableError

Answer = TypeVar("Answer")
#: Values of a record, as the driver unpacks them.
Values = list[Any]

SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
CONNECT_SECONDS = 2.0
ACQUIRE_SECONDS = 2.5
LIVENESS_SECONDS = 30.0
POOL_SIZE = 50
#: The server ends a statement or transaction that takes longer.
QUERY_SECONDS = 10.0
#: This process stops waiting for a server that says nothing. Later than the server's own end: the answer is better.
SILENCE_SECONDS = QUERY_SECONDS + 2.0
#: A call is made again for this long where the failure passes, and for this long where nobody answers at all.
RETRY_SECONDS = 5.0
AWAY_SECONDS = 1.0
FIRST_WAIT_SECONDS = 0.002
LONGEST_WAIT_SECONDS = 0.25


def check_uri(uri: str) -> None:
    """See that an address is one. Raises TruthUnavailableError, which names no user and no password in it."""
    try:
        parts = urlsplit(uri)
        good = parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # of the port
        good = False
    if not good or parts.username is not None or parts.password is not None:
        raise TruthUnavailableError("HEADCOUNT_NEO4J_URI: must be bolt://host:port or neo4j://host:port, +s with TLS")


class Database:
    """The driver of one database, opened and closed in one event loop.

    Args:
        uri: `bolt://` for one server, `neo4j://` for a cluster (`+s` with TLS).
        user: name of the user; with no password nobody is named.
        password: theirs.
        name: of the database.
    """

    def __init__(self, uri: str, user: str, password: str | None, name: str) -> None:
        self.uri = uri
        self.name = name
        self._auth = None if password is None else (user, password)
        self._driver: neo4j.AsyncDriver | None = None
        self._calls: set[asyncio.Task[Any]] = set()

    def open(self) -> None:
        """Make the driver; it connects when it is first used.

        Raises:
            TruthUnavailableError: the address or another value cannot be used.
        """
        check_uri(self.uri)
        try:
            self._driver = neo4j.AsyncGraphDatabase.driver(
                self.uri,
                auth=self._auth,
                user_agent="headcount",
                connection_timeout=CONNECT_SECONDS,
                connection_acquisition_timeout=ACQUIRE_SECONDS,
                max_connection_pool_size=POOL_SIZE,
                liveness_check_timeout=LIVENESS_SECONDS,
                max_transaction_retry_time=RETRY_SECONDS,
                notifications_min_severity="OFF",
            )
        except (ValueError, neo4j.exceptions.DriverError) as error:
            raise TruthUnavailableError(f"HEADCOUNT_NEO4J_URI: {error}") from None

    async def close(self) -> None:
        """Finish the calls that run, then close the driver."""
        while self._calls:
            await asyncio.wait(self._calls)
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()

    def session(self) -> neo4j.AsyncSession:
        """A session with the leader: whatever a script acts on is read where it was written.

        Raises:
            TruthUnavailableError: not open.
        """
        if self._driver is None:
            raise TruthUnavailableError("the truth is closed")
        return self._driver.session(database=self.name, default_access_mode=neo4j.WRITE_ACCESS)

    async def run(self, text: str, /, **parameters: object) -> list[Values]:
        """Run one statement in a transaction of its own, again where that helps: it must bear that.

        Raises:
            TruthUnavailableError.
        """

        async def once() -> list[Values]:
            async with self.session() as session:
                result = await session.run(neo4j.Query(text, timeout=QUERY_SECONDS), parameters)
                return [record.values() async for record in result]

        return await self.apart(self.persistently(once))

    async def persistently(self, once: Callable[[], Awaitable[Answer]]) -> Answer:
        """Call `once` until it succeeds or its failure is none that passes.

        Raises:
            TruthUnavailableError: the store failed. What is the statement's own fault is raised as it is.
        """
        retries = Retries()
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    return await once()
            except STORE_ERRORS as error:
                if not await retries.wait(error):
                    raise told_unavailable(self.uri, self.name, error) from error

    async def apart(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Do the work in a task of its own: a caller who is cancelled would kill the connection in its middle."""
        if self._driver is None:
            work.close()
            raise TruthUnavailableError("the truth is closed")
        task = asyncio.get_running_loop().create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._finished)
        return await asyncio.shield(task)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be gone: then nobody else looks at it


class Retries:
    """How long one call is made again: a few milliseconds at first, since a deadlock passes at once."""

    def __init__(self, seconds: float = RETRY_SECONDS, away_seconds: float = AWAY_SECONDS) -> None:
        self._seconds = seconds
        self._away_seconds = away_seconds
        self._first_failed_at: float | None = None
        self._wait = FIRST_WAIT_SECONDS

    async def wait(self, error: BaseException, *, answered: bool = False) -> bool:
        """Wait a little. False where the failure does not pass, or there was time enough since the first.

        Args:
            error: the failure.
            answered: the store has answered since, so it is not away.
        """
        now = asyncio.get_running_loop().time()
        if self._first_failed_at is None:
            self._first_failed_at = now
        seconds = self._away_seconds if is_away(error) and not answered else self._seconds
        if not passes(error) or now > self._first_failed_at + seconds:
            return False
        await asyncio.sleep(self._wait * (0.5 + random.random()))
        self._wait = min(2 * self._wait, LONGEST_WAIT_SECONDS)
        return True
