"""The planner of cold pages: from the friends' logs, or from player bitmaps where those are cheaper.

Reading logs costs by their entries; bitmaps cost by the friends, and by the logs that they do not have yet. Both rates
are measured as pages go by. So a viewer with a few hundred friends is always counted from logs and costs nothing more
than that. Of one with thousands the logs become bitmaps when they are read a second time: mostly there is a view by
then, and who asks again has none for some reason that may last.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog

from graph.player_bitmaps import PlayerBitmaps
from graph.social_graph import SeenLog, SocialGraph

log = structlog.get_logger(__name__)

#: Bitmaps have to save a page this much, or it is not worth leaving the one way that every page goes.
WORTH_SECONDS = 0.005
#: What the rates are taken for until they have been measured: SQLite's, on a 2-core machine.
ENTRY_SECONDS = 80e-9
OWNER_SECONDS = 3e-6
PAGE_SECONDS = 0.5e-3
#: An entry that the bitmaps do not have is read and added: so many times the cost of one that is read.
ADDED_ENTRY_FACTOR = 3.0
#: How much the latest measurement counts.
SMOOTHING = 0.2
REMEMBERED_VIEWERS = 50_000
#: Logs of viewers being added to the bitmaps at once; each holds megabytes.
ADDED_AT_ONCE = 2


class Rate:
    """What a unit of work costs, in seconds: a moving average of what it did cost."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def measured(self, seconds: float, units: float) -> None:
        """So much work took so long."""
        if units > 0:
            self.seconds += SMOOTHING * (seconds / units - self.seconds)


class Size(NamedTuple):
    """How many friends a viewer sees, how many entries their logs have together, and how often those were read."""

    owners: int
    entries: int
    reads: int = 0


class BitmapPages:
    """Counts pages from player bitmaps, where that pays. One for the process.

    Args:
        graph: the truth.
        bitmaps: who played what.
        worth_seconds: what bitmaps have to save a page.
        clock: this process's clock, in seconds.
    """

    def __init__(
        self,
        graph: SocialGraph,
        bitmaps: PlayerBitmaps,
        *,
        worth_seconds: float = WORTH_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._graph = graph
        self._bitmaps = bitmaps
        self._worth_seconds = worth_seconds
        self._clock = clock
        self._sizes: OrderedDict[int, Size] = OrderedDict()
        self._adding: set[asyncio.Task[None]] = set()
        self.entry = Rate(ENTRY_SECONDS)
        self.owner = Rate(OWNER_SECONDS)
        self.page = Rate(PAGE_SECONDS)

    async def counts(self, viewer_id: int, numbers: Sequence[int]) -> list[int] | None:
        """How many friends played each game, as the truth has it at some moment after this was called.

        Returns:
            The counts in the order asked, or None where reading the friends' logs is cheaper.

        Raises:
            GraphError: the truth cannot be read.
        """
        if not self._may_pay(viewer_id):
            return None
        if not self._bitmaps.cover(numbers):
            self._bitmaps.want(numbers)
            return None
        begun = self._clock()
        lengths = await self._graph.seen_owners(viewer_id)
        self.owner.measured(self._clock() - begun, len(lengths))
        size = self._remember(viewer_id, len(lengths), sum(lengths.values()))
        missing = sum(lengths[owner_id] for owner_id in self._bitmaps.behind(lengths))
        from_bitmaps = self.page.seconds + missing * self.entry.seconds * ADDED_ENTRY_FACTOR
        if size.entries * self.entry.seconds - from_bitmaps < self._worth_seconds:
            return None
        await self._bitmaps.catch_up(lengths)
        if self._bitmaps.behind(lengths) or not self._bitmaps.cover(numbers):
            return None  # games, or all of it, left meanwhile for want of memory
        begun = self._clock()
        found = self._bitmaps.counts(list(lengths), numbers)
        self.page.measured(self._clock() - begun, 1)
        return found

    def logs_were_read(self, viewer_id: int, seen: Mapping[int, SeenLog], seconds: float) -> None:
        """Learn from a page that was counted from logs. Very many that are read again become bitmaps, behind the page.

        Args:
            viewer_id: whose page.
            seen: what was read.
            seconds: what that took.
        """
        entries = sum(len(owner.log) for owner in seen.values()) // 4
        size = self._remember(viewer_id, len(seen), entries, reads=1)
        if size.entries >= 1_000:  # of few entries the query itself is most of it
            self.entry.measured(seconds, size.entries)
        if size.reads < 2 or not self._pays(size) or len(self._adding) >= ADDED_AT_ONCE:
            return
        adding = self._add({owner_id: owner.log for owner_id, owner in seen.items()})
        task = asyncio.create_task(adding, name="player-bitmaps", context=contextvars.Context())
        self._adding.add(task)
        task.add_done_callback(self._adding.discard)

    async def close(self) -> None:
        """Finish what is under way."""
        while self._adding:
            await asyncio.wait(self._adding)
        await self._bitmaps.close()

    def _may_pay(self, viewer_id: int) -> bool:
        size = self._sizes.get(viewer_id)
        # Who was never seen is asked about where there are bitmaps at all, which only viewers with very many friends
        # make.
        return self._bitmaps.users > 0 if size is None else self._pays(size)

    def _pays(self, size: Size) -> bool:
        """Whether bitmaps that have everything would save enough."""
        from_bitmaps = size.owners * self.owner.seconds + self.page.seconds
        return size.entries * self.entry.seconds - from_bitmaps >= self._worth_seconds

    def _remember(self, viewer_id: int, owners: int, entries: int, reads: int = 0) -> Size:
        before = self._sizes.get(viewer_id)
        size = Size(owners, entries, reads + (0 if before is None else before.reads))
        self._sizes[viewer_id] = size
        self._sizes.move_to_end(viewer_id)
        if len(self._sizes) > REMEMBERED_VIEWERS:
            self._sizes.popitem(last=False)
        return size

    async def _add(self, logs: dict[int, bytes]) -> None:
        try:
            await self._bitmaps.add(logs)
        except Exception:
            log.exception("player_bitmaps_not_added")
