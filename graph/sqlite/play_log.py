"""One user's play log as a transaction holds it: packed numbers, searched and appended to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from graph.social_graph import RecordedPlay

NUMBER_BYTES = 4
#: After so many look-ups in one transaction a table of all positions is cheaper than searching the packed log again.
LOOKUPS_BEFORE_TABLE = 4


@dataclass(slots=True)
class PlayLog:
    """The log of a user. `packed` holds what is used of it, `appended` the (ordinal, Unix ms) of the new entries."""

    user_id: int
    state: int
    packed: bytearray
    appended: list[tuple[int, int]] = field(default_factory=list)
    _lookups: int = 0
    _positions: dict[int, int] | None = None

    @property
    def plays(self) -> int:
        """How many games the log has."""
        return len(self.packed) // NUMBER_BYTES

    def ordinal_of(self, number: int) -> int:
        """The place of a game in the log (1, 2, 3 …), 0 where it is not there."""
        if self._positions is not None:
            return self._positions.get(number, 0)
        self._lookups += 1
        entries = np.frombuffer(self.packed, dtype="<u4")
        if self._lookups > LOOKUPS_BEFORE_TABLE:
            self._positions = {entry: ordinal for ordinal, entry in enumerate(entries.tolist(), start=1)}
            return self._positions.get(number, 0)
        found = np.flatnonzero(entries == number)
        return int(found[0]) + 1 if found.size else 0

    def append(self, number: int, played_at_ms: int) -> RecordedPlay:
        """Append a game unless it is there."""
        ordinal = self.ordinal_of(number)
        if ordinal:
            return RecordedPlay(False, ordinal)
        self.packed += number.to_bytes(NUMBER_BYTES, "little")
        ordinal = self.plays
        self.appended.append((ordinal, played_at_ms))
        if self._positions is not None:
            self._positions[number] = ordinal
        return RecordedPlay(True, ordinal)

    def padded(self) -> bytes:
        """The log with room for the next entries, at most a quarter of it: most appends keep the row's size."""
        step = max(16, 1 << max(0, self.plays.bit_length() - 3))
        room = -self.plays % step
        return bytes(self.packed) + bytes(room * NUMBER_BYTES)
