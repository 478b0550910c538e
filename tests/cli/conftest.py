"""The program, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Headcount


@pytest.fixture
def headcount(tmp_path: Path) -> Headcount:
    return Headcount(tmp_path)
