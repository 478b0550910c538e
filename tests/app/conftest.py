"""The application as a fixture."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.world import World, world


@pytest.fixture
async def headcount(tmp_path: Path, redis_url: str) -> AsyncIterator[World]:
    """The whole application, empty."""
    async with world(tmp_path, redis_url) as running:
        yield running
