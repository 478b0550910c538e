"""How many friends played each game, counted from their play logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy

from graph.social_graph import SeenLog

#: A table over all numbers is the fastest way to count, unless there are far more games than entries.
_TABLE_ENTRIES_A_PLAY = 16
_SMALL_TABLE = 65_536


class FriendPlays:
    """The counts of all games in some logs. The logs themselves are not kept."""

    def __init__(self, seen: Mapping[int, SeenLog]) -> None:
        """Count.

        Args:
            seen: owner to log, as the truth gives it: 32-bit game numbers, little-endian, no game twice in a log.
        """
        numbers = numpy.frombuffer(b"".join(owner.log for owner in seen.values()), "<u4")
        highest = int(numbers.max()) if len(numbers) else 0
        if highest < max(_SMALL_TABLE, _TABLE_ENTRIES_A_PLAY * len(numbers)):
            table = numpy.bincount(numbers)
            self._numbers = numpy.flatnonzero(table)
            self._counts = table[self._numbers]
        else:
            self._numbers, self._counts = numpy.unique(numbers, return_counts=True)

    def counts(self, numbers: Sequence[int]) -> list[int]:
        """The counts of some games, in the order asked."""
        if not len(self._numbers):
            return [0] * len(numbers)
        asked = numpy.asarray(numbers, dtype="u8")
        places = numpy.searchsorted(self._numbers, asked).clip(max=len(self._numbers) - 1)
        found: list[int] = numpy.where(self._numbers[places] == asked, self._counts[places], 0).tolist()
        return found

    def all(self) -> dict[int, int]:
        """The count of every game that has one."""
        return dict(zip(self._numbers.tolist(), self._counts.tolist(), strict=True))
