"""A bounded cache that a flood of strangers does not empty."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SegmentedCache(Generic[Key, Value]):
    """Keeps what was asked for lately; what was asked for once only cannot push out what was asked for twice.

    Newcomers stand in a segment of their own and push out each other. The second time a key is asked for it moves to
    the kept segment, which only such keys push on. (A segmented LRU.)

    Args:
        capacity: the most that each of the two segments holds, in the unit of the weights.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._new: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._new_weight = 0
        self._kept_weight = 0

    def __len__(self) -> int:
        return len(self._new) + len(self._kept)

    @property
    def weight(self) -> int:
        """What all entries weigh."""
        return self._new_weight + self._kept_weight

    def get(self, key: Key) -> Value | None:
        """The value, or None where it is not held."""
        entry = self._kept.get(key)
        if entry is not None:
            self._kept.move_to_end(key)
            return entry[0]
        entry = self._new.pop(key, None)
        if entry is None:
            return None
        value, weight = entry
        self._new_weight -= weight
        self._kept[key] = entry
        self._kept_weight += weight
        while self._kept_weight > self.capacity:
            self._kept_weight -= self._kept.popitem(last=False)[1][1]
        return value

    def put(self, key: Key, value: Value, weight: int = 1) -> None:
        """Hold a value; one heavier than the capacity is not held at all."""
        self.drop(key)
        if weight > self.capacity:
            return
        self._new[key] = (value, weight)
        self._new_weight += weight
        while self._new_weight > self.capacity:
            self._new_weight -= self._new.popitem(last=False)[1][1]

    def drop(self, key: Key) -> None:
        """Forget a key, whether it is held or not."""
        if (entry := self._new.pop(key, None)) is not None:
            self._new_weight -= entry[1]
        elif (entry := self._kept.pop(key, None)) is not None:
            self._kept_weight -= entry[1]
