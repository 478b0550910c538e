"""A client of the test's Redis, as the event log has one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from signals.redis import connect


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    client = connect(redis_url, client_name="test-events")
    yield client
    await client.aclose()
