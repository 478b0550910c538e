"""The application as a fixture."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.world import World, world
from tests.served import Serve, Served, serve  # noqa: F401  # a fixture is found by its name here


@pytest.fixture
def truth_settings() -> dict[str, Any]:
    """Which truth the application has: the SQLite file, unless a module names others."""
    return {}


@pytest.fixture
async def headcount(tmp_path: Path, redis_url: str, truth_settings: dict[str, Any]) -> AsyncIterator[World]:
    """The whole application, empty."""
    async with world(tmp_path, redis_url, **truth_settings) as running:
        yield running


@pytest.fixture(scope="session")
def imported_lastfm(lastfm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the people, their friendships and plays, imported from the command line."""
    folder = tmp_path_factory.mktemp("lastfm")
    subprocess.run(
        [
            *(sys.executable, "-m", "cli", "import", "--games", lastfm / "games.tsv"),
            *("--friends", lastfm / "friends.tsv", "--plays", lastfm / "plays.tsv"),
        ],
        env={**os.environ, "HEADCOUNT_DATA_DIR": str(folder)},
        check=True,
        capture_output=True,
        timeout=100,
    )
    return folder


@pytest.fixture
def data_dir(imported_lastfm: Path, tmp_path: Path) -> Path:
    """A copy of the imported folder, for one test to change."""
    folder = tmp_path / "data"
    shutil.copytree(imported_lastfm, folder, ignore=shutil.ignore_patterns("*.lock"))
    return folder
