"""One user's play log as a transaction holds it: packed numbers, searched and appended to."""

from __future__ import annotations

from itertools import count

import numpy as np

from graph.social_graph import RecordedPlay

NUMBER_BYTES = 4
#: A longer log is searched by numpy, whose call costs more than a search through a short one.
SHORT_LOG_BYTES = 4_000
#: After so many look-ups in one transaction a table of all positions is cheaper than searching the packed log again.
LOOKUPS_BEFORE_TABLE = 4


class PlayLog:
    """The log of a user as it was read, and what is appended to it."""

    __slots__ = ("_lookups", "_packed", "_positions", "appended", "plays", "state", "user_id")

    def __init__(self, user_id: int, state: int, packed: bytes) -> None:
        self.user_id = user_id
        self.state = state
        self.plays = len(packed) // NUMBER_BYTES
        self.appended: list[tuple[int, int]] = []  # number, Unix milliseconds
        self._packed = packed
        self._positions: dict[int, int] = {}  # of what was appended; of everything, once the log is long looked at
        self._lookups = 0

    def append(self, number: int, played_at_ms: int) -> RecordedPlay:
        """Append a game unless it is there."""
        ordinal = self._positions.get(number) or self._read_ordinal(number)
        if ordinal:
            return RecordedPlay(False, ordinal)
        self.plays += 1
        self.appended.append((number, played_at_ms))
        self._positions[number] = self.plays
        return RecordedPlay(True, self.plays)

    def padded(self) -> bytes:
        """The log with room for at most 15 more entries or a quarter: most appends keep the row's size."""
        plays = self.plays
        step = 16 if plays < 128 else 1 << (plays.bit_length() - 3)
        new = [number.to_bytes(NUMBER_BYTES, "little") for number, _ in self.appended]
        return b"".join((self._packed, *new, bytes(-plays % step * NUMBER_BYTES)))

    def _read_ordinal(self, number: int) -> int:
        """The place of a game in the log as it was read, 0 where it is not there."""
        self._lookups += 1
        if self._lookups > LOOKUPS_BEFORE_TABLE:
            if self._lookups == LOOKUPS_BEFORE_TABLE + 1:
                entries = np.frombuffer(self._packed, dtype="<u4").tolist()
                self._positions.update(zip(entries, count(1)))  # one of the two never ends
                return self._positions.get(number, 0)
            return 0
        if len(self._packed) > SHORT_LOG_BYTES:
            found = np.flatnonzero(np.frombuffer(self._packed, dtype="<u4") == number)
            return int(found[0]) + 1 if found.size else 0
        wanted = number.to_bytes(NUMBER_BYTES, "little")
        at = self._packed.find(wanted)
        while at > 0 and at % NUMBER_BYTES:  # the same bytes across two entries
            at = self._packed.find(wanted, at + 1)
        return at // NUMBER_BYTES + 1  # -1 // 4 + 1 is 0
