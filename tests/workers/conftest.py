"""The truth and the derived state that workers stand between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis.asyncio
import structlog

from graph.social_graph import GameRow
from graph.sqlite import SQLiteGraph
from signals.redis import SharedRedis, connect
from signals.views import FriendViews

GAMES = 40


@pytest.fixture(autouse=True)
def _plain_tracebacks() -> Iterator[None]:
    """Without the local variables that structlog's default adds: those take seconds to print."""
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    before = structlog.get_config()["processors"]
    structlog.configure(processors=[*before[:-1], console])
    yield
    structlog.configure(processors=before)


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[SQLiteGraph]:
    """A truth with games 1..40 and nobody in it."""
    graph = SQLiteGraph(tmp_path / "truth.sqlite")
    await graph.open()
    await graph.save_games([GameRow(game_id, f"Game {game_id}") for game_id in range(1, GAMES + 1)])
    yield graph
    await graph.close()


@pytest.fixture
def views(shared_redis: SharedRedis) -> FriendViews:
    return FriendViews(shared_redis)


@pytest.fixture
async def events_client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    """The client of the event log."""
    client = connect(redis_url, client_name="test-events")
    yield client
    await client.aclose()
