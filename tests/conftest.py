"""What every room's tests share: real stores, started once a session and emptied before each test."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from signals.embedded_redis import EmbeddedRedis
from signals.redis import SharedRedis, connect
from tests.neo4j.server import Access, CannotStartError, Neo4jServer, given_access, running

REQUIRE_ALL = os.environ.get("HEADCOUNT_REQUIRE_ALL") == "1"
LASTFM = Path(os.environ.get("HEADCOUNT_TEST_DATA", Path(__file__).parents[2] / "shared" / "data")) / "lastfm"


def skip_or_fail(reason: str) -> NoReturn:
    """Skip with one line where something cannot be had here; fail where everything is required (CI)."""
    if REQUIRE_ALL:
        pytest.fail(f"{reason}, and HEADCOUNT_REQUIRE_ALL=1", pytrace=False)
    pytest.skip(reason)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test on Neo4j waits for its start (and, on a new machine, for Maven to bring it)."""
    for item in items:
        if "neo4j" in item.nodeid and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def redis_server_url() -> Iterator[str]:
    """A Redis of this test process's own: the embedded one, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="hc-"))
    loop = asyncio.new_event_loop()
    server = EmbeddedRedis(folder)
    loop.run_until_complete(server.start())
    try:
        yield server.url
    finally:
        loop.run_until_complete(server.stop())
        loop.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def redis_url(redis_server_url: str) -> str:
    """The test's Redis, empty."""
    client = connect(redis_server_url, client_name="test-flush")
    await client.flushall()
    await client.aclose()
    return redis_server_url


@pytest.fixture
async def shared_redis(redis_url: str) -> AsyncIterator[SharedRedis]:
    """A client of the test's Redis, which is empty."""
    shared = SharedRedis(connect(redis_url, client_name="test"))
    yield shared
    await shared.close()


@pytest.fixture(scope="session")
def neo4j_server() -> Iterator[Neo4jServer | None]:
    """A Neo4j of this test process's own; None where HEADCOUNT_TEST_NEO4J_URI names another."""
    if given_access() is not None:
        yield None
        return
    try:
        with running() as server:
            yield server
    except CannotStartError as error:
        skip_or_fail(str(error))


@pytest.fixture(scope="session")
def neo4j_access(neo4j_server: Neo4jServer | None) -> Access:
    """Where the tests' Neo4j is, and who may enter."""
    access = given_access() if neo4j_server is None else neo4j_server.access
    assert access is not None
    return access


@pytest.fixture(scope="session")
def lastfm() -> Path:
    """The folder of the Last.fm data, read from where it is and never copied."""
    if not LASTFM.is_dir():
        skip_or_fail(f"the Last.fm data is not at {LASTFM}")
    return LASTFM
