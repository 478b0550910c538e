"""Dense positions for the users that were met, and how far each one's log was taken in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

FIRST_ROOM = 1_024
#: Users met since the last sorting; then all are sorted again. A dictionary entry costs 110 bytes, a sorted one 16.
UNSORTED = 4_096
DICTIONARY_BYTES = 110


class UserPositions:
    """Positions 0, 1, 2 … in the order in which users were met."""

    def __init__(self) -> None:
        self._count = 0
        self._ids: NDArray[np.int64] = np.zeros(FIRST_ROOM, dtype="i8")  # by position
        self._cursors: NDArray[np.uint32] = np.zeros(FIRST_ROOM, dtype="u4")
        self._sorted: NDArray[np.int64] = np.zeros(0, dtype="i8")
        self._order: NDArray[np.uint32] = np.zeros(0, dtype="u4")  # the position of each of `_sorted`
        self._recent: dict[int, int] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """About how much memory they take."""
        arrays = self._ids.nbytes + self._cursors.nbytes + self._sorted.nbytes + self._order.nbytes
        return arrays + DICTIONARY_BYTES * len(self._recent)

    def ids(self) -> list[int]:
        """Everybody who was met."""
        ids: list[int] = self._ids[: self._count].tolist()
        return ids

    def meet(self, user_ids: Sequence[int]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """The positions and the cursors of users, in the order asked; new ones begin at cursor 0."""
        positions = self._find(user_ids)
        for place in np.flatnonzero(positions < 0).tolist():
            positions[place] = self._add(user_ids[place])
        found = positions.astype("u4")
        cursors = self._cursors[found]
        if len(self._recent) > UNSORTED:
            self._sort()
        return found, cursors

    def known(self, user_ids: Sequence[int]) -> NDArray[np.uint32]:
        """The positions of those who were met."""
        positions = self._find(user_ids)
        return positions[positions >= 0].astype("u4")

    def behind(self, lengths: Mapping[int, int]) -> list[int]:
        """The users whose log is longer than their cursor. Whoever was not met is at 0."""
        ids = list(lengths)
        positions = self._find(ids)
        cursors = np.where(positions >= 0, self._cursors[positions.clip(min=0)], 0)
        return list(compress(ids, cursors < np.fromiter(lengths.values(), dtype="i8", count=len(ids))))

    def advance(self, positions: NDArray[np.uint32], cursors: NDArray[np.uint32]) -> None:
        """So much of these users' logs was taken in. A cursor never goes back."""
        self._cursors[positions] = np.maximum(self._cursors[positions], cursors)

    def _find(self, user_ids: Sequence[int]) -> NDArray[np.int64]:
        """Positions, -1 for those who were not met."""
        asked = np.asarray(user_ids, dtype="i8")
        positions = np.full(len(asked), -1, dtype="i8")
        if len(self._sorted):
            places = np.searchsorted(self._sorted, asked).clip(max=len(self._sorted) - 1)
            here = self._sorted[places] == asked
            positions[here] = self._order[places[here]]
        if self._recent:
            for place in np.flatnonzero(positions < 0).tolist():
                positions[place] = self._recent.get(user_ids[place], -1)
        return positions

    def _add(self, user_id: int) -> int:
        position = self._recent.get(user_id)
        if position is not None:
            return position
        if self._count == len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._cursors = np.concatenate([self._cursors, np.zeros_like(self._cursors)])
        position = self._recent[user_id] = self._count
        self._ids[position] = user_id
        self._count += 1
        return position

    def _sort(self) -> None:
        ids = self._ids[: self._count]
        self._order = np.argsort(ids, kind="stable").astype("u4")
        self._sorted = ids[self._order]
        self._recent = {}
