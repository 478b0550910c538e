"""What is told from a write to what follows from it, and the partition it is told in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

#: Number of partitions of the event log. Part of the stored format: changing it means draining the log first.
PARTITIONS = 8

EventKind = Literal["play", "log", "edge", "user"]


@dataclass(frozen=True, slots=True)
class Event:
    """One change of the truth.

    `play`: entry `ordinal` of the log of `user_id` is game `number`. `log`: the log of `user_id` grew (an import).
    `edge`: the edge between `user_id` (the lower id) and `other_id` changed. `user`: the state of `user_id` changed.
    Events say what changed, never what it changed to: who acts on one reads the truth. Fields that a kind does not use
    are 0.
    """

    id: int
    kind: EventKind
    user_id: int
    other_id: int = 0
    ordinal: int = 0
    number: int = 0

    @property
    def partition(self) -> int:
        """The partition of the log, by user, so that one user's events stay in order."""
        return self.user_id % PARTITIONS

    def encode(self) -> bytes:
        """The event as JSON."""
        return json.dumps(
            [self.id, self.kind, self.user_id, self.other_id, self.ordinal, self.number], separators=(",", ":")
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> Event:
        """The event from JSON. Raises ValueError where it is not one."""
        fields = json.loads(data)
        if not isinstance(fields, list) or len(fields) != 6 or fields[1] not in ("play", "log", "edge", "user"):
            raise ValueError(f"not an event: {data[:100]!r}")
        return cls(*fields)
