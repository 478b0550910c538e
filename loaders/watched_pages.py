"""All pages that this process's subscribers watch with their friend counts: looked at once a recount.

After each refresh of the live totals the views of all watching viewers are read, one PAGE a viewer however many pages
it watches, and compared with what each subscriber was told. So one event tells both signals.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

from loaders.friend_counts import FriendCounts
from loaders.page_watch import PageWatch
from signals.live_totals import LiveTotals

#: Viewers read at once: about 20 ms of Redis, so that pages of others come in between.
VIEWERS_A_CALL = 256
#: Viewers without a view whose page is counted from the truth in one look, those told longest ago first.
COLD_PAGES_A_LOOK = 64


class WatchedPages:
    """Looks after the watches of one process.

    Args:
        friend_counts: friend counts of this process.
        live_totals: live counts of this process, whose refreshes are the rhythm.
        stale_max_seconds: how old friend counts may be and still be told.
        clock: Unix seconds.
    """

    def __init__(
        self,
        friend_counts: FriendCounts,
        live_totals: LiveTotals,
        *,
        stale_max_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._friend_counts = friend_counts
        self._live_totals = live_totals
        self._stale_max_seconds = stale_max_seconds
        self._clock = clock
        self._watches: dict[int, set[PageWatch]] = {}
        self._due = asyncio.Event()
        live_totals.after_refresh(self._due.set)

    @property
    def subscribers(self) -> int:
        """How many subscribers there are."""
        return sum(map(len, self._watches.values()))

    def watch(self, viewer_id: int, numbers: Collection[int], *, players: bool = False) -> PageWatch:
        """Changes of the games with these numbers, for a viewer; they begin with `async with`.

        With `players`, changes of a game's players of the day as well.
        """
        return PageWatch(
            self,
            self._friend_counts,
            self._live_totals.subscribe(numbers, players=players),
            viewer_id,
            stale_max_seconds=self._stale_max_seconds,
            clock=self._clock,
        )

    def add(self, watch: PageWatch) -> None:
        """Begin to look after a watch."""
        self._watches.setdefault(watch.viewer_id, set()).add(watch)

    def remove(self, watch: PageWatch) -> None:
        """Look after it no longer."""
        watches = self._watches[watch.viewer_id]
        watches.remove(watch)
        if not watches:
            del self._watches[watch.viewer_id]

    async def run(self) -> None:
        """Look after each refresh of the live totals, for ever. Refreshes during a look are followed by one look."""
        while True:
            await self._due.wait()
            self._due.clear()
            await self.look()

    async def look(self) -> None:
        """Read what all viewers' friends played and tell the subscribers what changed, live counts included."""
        viewers: list[int] = []
        for viewer_id, watches in self._watches.items():
            if any(watch.numbers for watch in watches):
                viewers.append(viewer_id)
            else:
                for watch in watches:  # they ask for no friend counts
                    watch.tell(frozenset())
        cold: list[int] = []
        for start in range(0, len(viewers), VIEWERS_A_CALL):
            some = viewers[start : start + VIEWERS_A_CALL]
            read = await asyncio.gather(*map(self._look_at_view, some))
            cold += [viewer_id for viewer_id, resident in zip(some, read, strict=True) if not resident]
        if cold:
            cold.sort(key=self._told_at)
            await asyncio.gather(*map(self._look_at_truth, cold[:COLD_PAGES_A_LOOK]))
            for viewer_id in cold[COLD_PAGES_A_LOOK:]:
                self._tell_unread(viewer_id)

    def _numbers(self, viewer_id: int) -> list[int]:
        return list({number for watch in self._watches.get(viewer_id, ()) for number in watch.numbers})

    def _told_at(self, viewer_id: int) -> float:
        return min((watch.as_of for watch in self._watches.get(viewer_id, ())), default=0.0)

    async def _look_at_view(self, viewer_id: int) -> bool:
        """Whether the viewer's view could be read."""
        numbers = self._numbers(viewer_id)
        found = await self._friend_counts.resident(viewer_id, numbers)
        if found is None:
            return False
        counts, as_of = found
        self._tell(viewer_id, dict(zip(numbers, counts, strict=True)), as_of)
        return True

    async def _look_at_truth(self, viewer_id: int) -> None:
        numbers = self._numbers(viewer_id)
        page = await self._friend_counts.page(viewer_id, numbers)
        counts = {number: int(count) for number, count in zip(numbers, page, strict=True) if count is not None}
        if counts:
            self._tell(viewer_id, counts, min(count.as_of for count in page if count is not None))
        else:
            self._tell_unread(viewer_id)

    def _tell(self, viewer_id: int, counts: dict[int, int], as_of: float) -> None:
        for watch in self._watches.get(viewer_id, ()):
            watch.tell(watch.take(counts, as_of))

    def _tell_unread(self, viewer_id: int) -> None:
        for watch in self._watches.get(viewer_id, ()):
            watch.tell(watch.not_read())
