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
from tests.neo4j.server import Access, CannotStartError, given_access, running

REQUIRE_ALL = os.environ.get("HEADCOUNT_REQUIRE_ALL") == "1"
LASTFM = Path(os.environ.get("HEADCOUNT_TEST_DATA", Path(__file__).parents[2] / "shared" / "data")) / "lastfm"


def skip_or_fail(reason: str) -> NoReturn:
    """Skip with one line where something cannot be had here; fail where everything is required (CI)."""
    if REQUIRE_ALL:
        pytest.fail(f"{reason}, and HEADCOUNT_REQUIRE_ALL=1", pytrace=False)
    pytest.skip(reason)


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
def neo4j_access() -> Iterator[Access]:
    """A Neo4j of this test process's own, or that of HEADCOUNT_TEST_NEO4J_URI."""
    given = given_access()
    if given is not None:
        yield given
        return
    try:
        with running() as server:
            yield server.access
    except CannotStartError as error:
        skip_or_fail(str(error))


@pytest.fixture(scope="session")
def lastfm() -> Path:
    """The folder of the Last.fm data, read from where it is and never copied."""
    if not LASTFM.is_dir():
        skip_or_fail(f"the Last.fm data is not at {LASTFM}")
    return LASTFM
