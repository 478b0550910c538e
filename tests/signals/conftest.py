"""Fixtures of the signals' tests."""

from __future__ import annotations

import pytest

from signals.redis import SharedRedis
from tests.signals.live_stage import LiveStage


@pytest.fixture
def stage(shared_redis: SharedRedis) -> LiveStage:
    """Live sessions on an empty Redis, with a clock that the test moves."""
    return LiveStage(shared_redis)
