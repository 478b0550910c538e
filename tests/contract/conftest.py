"""One suite for every adapter of the truth, written against the protocol alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graph.social_graph import SocialGraph
from tests.contract.truths import ADAPTERS, Truth, make_truth


@pytest.fixture(params=ADAPTERS)
async def truth(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Truth]:
    truth = make_truth(request.param, tmp_path, request)
    yield truth
    await truth.close()


@pytest.fixture
async def graph(truth: Truth) -> SocialGraph:
    return await truth.open()
