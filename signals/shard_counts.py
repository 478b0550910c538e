"""What each shard counts for each game, and the totals over all shards."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from signals.shards import SHARDS

Counts = npt.NDArray[np.uint32]  # rows of game number, sessions, people


def parse_counts(text: bytes) -> Counts:
    """Rows of (game number, sessions, people) from a script's answer, which is those numbers with spaces between."""
    if not text:
        return np.zeros((0, 3), dtype="<u4")
    return np.fromstring(text.decode("ascii"), dtype=np.int64, sep=" ").clip(0).astype("<u4").reshape(-1, 3)


class ShardCounts:
    """A table with a row a game that has sessions, and a column a shard. It grows with the games that are live.

    Folding an answer costs what the answer holds, not what the table holds.
    """

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}  # game number -> row
        self._free: list[int] = []
        self._numbers = np.zeros(0, dtype=np.int64)  # row -> game number, 0 where the row is free
        self._shards = np.zeros((SHARDS, 0, 2), dtype=np.int32)  # sessions and people
        self._totals = np.zeros((0, 2), dtype=np.int64)

    def fold(self, shard: int, counts: Counts, *, whole: bool) -> set[int]:
        """Take a shard's answer in.

        Args:
            shard: whose answer.
            counts: rows of (game number, sessions, people), each game once.
            whole: the answer replaces all that is held of the shard.

        Returns:
            The numbers of the games whose totals may have changed.
        """
        numbers = counts[:, 0].tolist()
        changed = set(numbers)
        if whole:
            held = self._numbers[np.flatnonzero(self._shards[shard, :, 0])].tolist()
            gone = [number for number in held if number not in changed]
            self._write(shard, gone, np.zeros((len(gone), 2), dtype=np.int32))
            changed.update(gone)
        self._write(shard, numbers, counts[:, 1:].astype(np.int32))
        return changed

    def totals(self, numbers: Iterable[int]) -> Counts:
        """Rows of (game number, sessions, people) over all shards; 0 and 0 for a game that nobody is in."""
        asked = list(numbers)
        counts = np.zeros((len(asked), 3), dtype="<u4")
        counts[:, 0] = asked
        rows = np.fromiter((self._rows.get(number, -1) for number in asked), dtype=np.int64, count=len(asked))
        live = rows >= 0
        counts[live, 1:] = self._totals[rows[live]]
        return counts

    def live(self) -> list[int]:
        """The numbers of the games that have sessions."""
        return list(self._rows)

    def _write(self, shard: int, numbers: list[int], counts: npt.NDArray[np.int32]) -> None:
        held = self._rows
        rows = np.array([held.get(number, -1) for number in numbers], dtype=np.int64)
        for at in np.flatnonzero(rows < 0).tolist():
            rows[at] = self._new_row(numbers[at])
        self._totals[rows] += counts - self._shards[shard, rows]
        self._shards[shard, rows] = counts
        for row in rows[self._totals[rows, 0] == 0].tolist():
            del self._rows[int(self._numbers[row])]
            self._numbers[row] = 0
            self._free.append(row)

    def _new_row(self, number: int) -> int:
        if not self._free:
            self._grow()
        row = self._rows[number] = self._free.pop()
        self._numbers[row] = number
        return row

    def _grow(self) -> None:
        old = len(self._totals)
        new = max(64, old * 2)
        numbers, shards, totals = self._numbers, self._shards, self._totals
        self._numbers = np.zeros(new, dtype=np.int64)
        self._shards = np.zeros((SHARDS, new, 2), dtype=np.int32)
        self._totals = np.zeros((new, 2), dtype=np.int64)
        self._numbers[:old], self._shards[:, :old], self._totals[:old] = numbers, shards, totals
        self._free.extend(range(new - 1, old - 1, -1))
