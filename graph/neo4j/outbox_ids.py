"""Ids of outbox rows: made by each process for itself, since a counter would be a record that every play waits for.

41 bits of milliseconds, then 22 bits that begin at random: nearly in the order of the commits, and unique by
constraint (a clash fails its transaction, which is tried again with other ids).
"""

from __future__ import annotations

import secrets
import time

EPOCH_MS = 1_735_689_600_000  # 2025-01-01
SEQUENCE_BITS = 22


class OutboxIds:
    """Rising ids of one process."""

    def __init__(self) -> None:
        self._last = 0

    def take(self, count: int) -> int:
        """The first of `count` ids in a row."""
        now_ms = time.time_ns() // 1_000_000 - EPOCH_MS
        first = max((now_ms << SEQUENCE_BITS) + secrets.randbits(SEQUENCE_BITS - 1), self._last + 1)
        self._last = first + count - 1
        return first
