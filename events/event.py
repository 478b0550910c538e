"""What is told from a write to what follows from it, and the partition it is told in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import orjson

#: Number of partitions of the event log, a power of two. Part of the stored format: changing it means draining the log
#: first.
PARTITIONS = 8

_MIX = 0x9E3779B97F4A7C15  # 2**64 / golden ratio (Knuth, TAOCP 6.4)
_MASK = 2**64 - 1
_SHIFT = 64 - (PARTITIONS - 1).bit_length()
_KINDS = ("play", "log", "edge", "user")

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
        """The partition of the log, by user: one user's events stay together.

        Fibonacci hashing, since ids of some platforms are all 0 modulo a power of two.
        """
        return ((self.user_id * _MIX) & _MASK) >> _SHIFT

    def encode(self) -> bytes:
        """The event as JSON."""
        return orjson.dumps([self.id, self.kind, self.user_id, self.other_id, self.ordinal, self.number])

    @classmethod
    def decode(cls, data: bytes) -> Event:
        """The event from JSON. Raises ValueError where it is not one."""
        fields = orjson.loads(data)
        if not isinstance(fields, list) or len(fields) != 6:
            raise ValueError("an event is a list of six fields")
        row_id, kind, *numbers = fields
        if kind not in _KINDS:
            raise ValueError(f"no kind of event: {kind!r}")
        if any(type(number) is not int or number < 0 for number in (row_id, *numbers)):
            raise ValueError("the fields of an event but its kind are integers of 0 or more")
        return cls(row_id, kind, *numbers)
