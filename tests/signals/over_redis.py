"""A client laid over the test's own, for faults to be put in between."""

from __future__ import annotations

import asyncio

from signals.redis import Argument, Reply, SharedRedis


class OverRedis(SharedRedis):
    """Its commands leave with those of the client below, which also waits for them when it is closed."""

    def __init__(self, below: SharedRedis) -> None:
        super().__init__(below.client)
        self._below = below

    def call(self, *command: Argument) -> asyncio.Future[Reply]:
        """Send a command with the client below."""
        return self._below.call(*command)
