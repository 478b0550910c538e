"""Who played each game, as a Roaring bitmap a game: the second index, for viewers with too many friends to read.

Of every user that it has met it holds, as a view does, a *cursor*: how far the user's log is in the bitmaps. Whoever
asks says how long the logs are now; what lies past a cursor is read and added first. So a count from the bitmaps is the
count from the logs, and nothing has to be told to them.

User ids are 64 bits, and platforms draw them from the whole range: a 64-bit Roaring bitmap of such ids keeps a tree
node for each of them (22 bytes an id, 5 ms an intersection of 10,000). So users get dense positions as they are met,
and the bitmaps are of positions: 2 bytes a play, 2 us an intersection.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import structlog
from numpy.typing import NDArray
from pyroaring import BitMap

from graph.social_graph import GraphError, SocialGraph
from graph.user_positions import UserPositions

log = structlog.get_logger(__name__)

MAX_BYTES = 64 << 20
#: What an entry of the two dictionaries costs beside the positions in it, which are 2 bytes each or less.
BITMAP_BYTES = 250
DROPPED_BYTES = 70
#: Bitmaps added to between two turns of the event loop: about a millisecond.
BITMAPS_A_TURN = 300
#: Users whose logs are read at once when a game comes back.
USERS_A_READ = 500
#: A dropped game that was asked for so often comes back.
ASKED_TO_RETURN = 3


class PlayerBitmaps:
    """The bitmaps of one process. Every method is called in its event loop.

    Args:
        graph: the truth.
        max_bytes: when they grow beyond this, games leave: first those that nobody asked for, small ones before large
            ones, then those that were asked for longest ago.
    """

    def __init__(self, graph: SocialGraph, *, max_bytes: int = MAX_BYTES) -> None:
        self._graph = graph
        self._max_bytes = max_bytes
        self._users = UserPositions()
        self._bitmaps: dict[int, BitMap] = {}
        self._played = 0  # positions in all bitmaps
        self._dropped: set[int] = set()
        self._returning: set[int] = set()
        self._asked: dict[int, int] = {}
        self._tick = 0
        self._wanted: Counter[int] = Counter()
        self._return: asyncio.Task[None] | None = None
        self._epoch = 0

    @property
    def games(self) -> int:
        """How many games have a bitmap."""
        return len(self._bitmaps)

    @property
    def users(self) -> int:
        """How many users are known."""
        return len(self._users)

    @property
    def size_bytes(self) -> int:
        """About how much memory they take."""
        return (
            BITMAP_BYTES * len(self._bitmaps)
            + 2 * self._played
            + DROPPED_BYTES * len(self._dropped)
            + self._users.size_bytes
        )

    def cover(self, numbers: Iterable[int]) -> bool:
        """Whether all these games can be counted. None of the users that were met played a game without a bitmap,
        unless it was dropped.
        """
        return self._dropped.isdisjoint(numbers) and self._returning.isdisjoint(numbers)

    def want(self, numbers: Iterable[int]) -> None:
        """These games were asked for and are not covered. One that is asked for again and again comes back."""
        self._wanted.update(self._dropped.intersection(numbers))
        returning = {
            number for number in self._dropped.intersection(numbers) if self._wanted[number] >= ASKED_TO_RETURN
        }
        if returning and self._return is None:
            self._return = asyncio.create_task(self._bring_back(returning), name="player-bitmaps")

    def behind(self, lengths: Mapping[int, int]) -> list[int]:
        """The users whose logs, by these lengths, are not wholly in the bitmaps."""
        return self._users.behind(lengths)

    async def catch_up(self, lengths: Mapping[int, int]) -> None:
        """Read the logs of those who are behind, and add them.

        Raises:
            GraphError: the truth cannot be read.
        """
        behind = self._users.behind(lengths)
        if behind:
            await self.add(await self._graph.play_logs(behind))

    async def add(self, logs: Mapping[int, bytes]) -> None:
        """Add users' whole logs, packed. What is in the bitmaps already changes nothing."""
        epoch = self._epoch
        positions, cursors = self._users.meet(list(logs))
        played = await asyncio.to_thread(_past_cursors, list(logs.values()), positions, cursors)
        await self._apply(played, epoch)
        if epoch == self._epoch:
            self._users.advance(positions, np.array([len(log) // 4 for log in logs.values()], dtype="u4"))
            self._keep_within()

    def counts(self, user_ids: Sequence[int], numbers: Sequence[int]) -> list[int]:
        """How many of these users played each game, in the order asked. They were caught up, and the games covered."""
        self._tick += 1
        players = BitMap(array("I", self._users.known(user_ids).tobytes()))
        found = []
        for number in numbers:
            self._asked[number] = self._tick
            bitmap = self._bitmaps.get(number)
            found.append(0 if bitmap is None else bitmap.intersection_cardinality(players))
        return found

    def clear(self) -> None:
        """Forget everything."""
        self._epoch += 1
        self._users = UserPositions()
        self._bitmaps, self._played = {}, 0
        self._dropped, self._returning = set(), set()
        self._asked, self._wanted = {}, Counter()

    async def close(self) -> None:
        """End what is under way."""
        if self._return is not None:
            self._return.cancel()
            await asyncio.gather(self._return, return_exceptions=True)

    async def _apply(self, played: Sequence[tuple[int, BitMap]], epoch: int) -> None:
        """Add positions to bitmaps. A cursor moves after this: what is added too early is true all the same."""
        for start in range(0, len(played), BITMAPS_A_TURN):
            if start:
                await asyncio.sleep(0)
            if epoch != self._epoch:
                return
            for number, positions in played[start : start + BITMAPS_A_TURN]:
                if number in self._dropped:
                    continue
                bitmap = self._bitmaps.get(number)
                if bitmap is None:
                    self._bitmaps[number] = positions
                    self._played += len(positions)
                else:
                    before = len(bitmap)
                    bitmap |= positions
                    self._played += len(bitmap) - before

    def _keep_within(self) -> None:
        """Drop games until the bitmaps take nine tenths of what they may; forget all where that is not enough."""
        if self.size_bytes <= self._max_bytes:
            return
        order = sorted(self._bitmaps, key=lambda number: (self._asked.get(number, 0), len(self._bitmaps[number])))
        enough = self._max_bytes * 9 // 10
        for number in order:
            if self.size_bytes <= enough:
                return
            self._drop(number)
        if self.size_bytes > self._max_bytes:
            self.clear()

    def _drop(self, number: int) -> None:
        self._played -= len(self._bitmaps.pop(number))
        self._dropped.add(number)
        self._asked.pop(number, None)

    async def _bring_back(self, numbers: set[int]) -> None:
        """Read the logs of all known users again, for games that were dropped."""
        epoch = self._epoch
        try:
            self._dropped -= numbers
            self._returning |= numbers  # what is added from now on is added to these, too
            ids = self._users.ids()
            for start in range(0, len(ids), USERS_A_READ):
                logs = await self._graph.play_logs(ids[start : start + USERS_A_READ])
                positions, cursors = self._users.meet(list(logs))
                packed = list(logs.values())
                played = await asyncio.to_thread(_past_cursors, packed, positions, np.zeros_like(cursors))
                await self._apply([(number, where) for number, where in played if number in numbers], epoch)
                if epoch != self._epoch:
                    return
            self._returning -= numbers
            for number in numbers:
                self._wanted.pop(number, None)
                self._asked[number] = self._tick
            self._keep_within()
        except GraphError as error:
            log.warning("player_bitmaps_not_brought_back", games=len(numbers), reason=str(error))
        finally:
            if epoch == self._epoch and numbers & self._returning:  # the truth went away on the way
                for number in numbers & self._bitmaps.keys():
                    self._drop(number)
                self._returning -= numbers
                self._dropped |= numbers
            self._return = None


def _past_cursors(
    logs: Sequence[bytes], positions: NDArray[np.uint32], cursors: NDArray[np.uint32]
) -> list[tuple[int, BitMap]]:
    """The positions of those who played each game, from the entries past each user's cursor."""
    tails = [log[4 * int(cursor) :] for log, cursor in zip(logs, cursors, strict=True)]
    numbers = np.frombuffer(b"".join(tails), "<u4")
    if not len(numbers):
        return []
    players = np.repeat(positions, [len(tail) // 4 for tail in tails])
    order = np.argsort(numbers, kind="stable")
    numbers, players = numbers[order], players[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] ^ np.uint32(1)))
    bounds = [*starts.tolist(), len(numbers)]
    # Through `array`: pyroaring takes that at once, and a numpy array one number at a time.
    return [
        (number, BitMap(array("I", players[start:end].tobytes())))
        for number, start, end in zip(numbers[starts].tolist(), bounds, bounds[1:], strict=False)
    ]
