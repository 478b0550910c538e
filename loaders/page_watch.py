"""One subscriber's page: the friend counts it was told, and which of its games changed since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Protocol

from loaders.friend_counts import FriendCount
from signals.change_feed import Changes


class FriendPages(Protocol):
    """Friend counts for pages: `FriendCounts`, or what a `PageWatch` holds."""

    async def page(self, viewer_id: int, numbers: Sequence[int]) -> list[FriendCount | None]:
        """Counts for game numbers, in the order asked. None where nobody knows one."""
        ...


class WatchList(Protocol):
    """Who looks after watches from their beginning to their end."""

    def add(self, watch: PageWatch) -> None:
        """It began."""

    def remove(self, watch: PageWatch) -> None:
        """It ended."""


class PageWatch:
    """Changes of a page for its viewer: an async iterator of sets of game numbers, inside `async with`.

    What changes while the subscriber is busy adds up to one set. Friend counts are looked after from when they are
    first asked for (`page`), so a subscriber that never asks costs no look. What is compared with a later look is what
    the subscriber was told, so nothing is missed, whatever happened in between.

    Args:
        watches: looks after it.
        friend_pages: where friend counts are read for the first time.
        live: changes of the live counts of the games.
        viewer_id: whose friends.
        stale_max_seconds: how old friend counts may be and still be told.
        clock: Unix seconds.
    """

    def __init__(
        self,
        watches: WatchList,
        friend_pages: FriendPages,
        live: Changes,
        viewer_id: int,
        *,
        stale_max_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.viewer_id = viewer_id
        self._watches = watches
        self._friend_pages = friend_pages
        self._live = live
        self._stale_max_seconds = stale_max_seconds
        self._clock = clock
        self._counts: dict[int, int | None] = {}  # of the games whose friend counts are asked for; None: unknown
        self._as_of = float("inf")
        self._pending: frozenset[int] = frozenset()
        self._wake = asyncio.Event()

    async def __aenter__(self) -> PageWatch:
        """Begin: every change from here on is told."""
        await self._live.__aenter__()
        self._watches.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End: nothing of it is left."""
        self._watches.remove(self)
        await self._live.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[frozenset[int]]:
        return self

    async def __anext__(self) -> frozenset[int]:
        await self._wake.wait()
        self._wake.clear()
        changed, self._pending = self._pending, frozenset()
        return changed

    async def page(self, viewer_id: int, numbers: Sequence[int]) -> list[FriendCount | None]:
        """Friend counts for the subscriber's next event; those it did not ask for before are read."""
        new = [number for number in numbers if number not in self._counts]
        if new:
            for number, count in zip(new, await self._friend_pages.page(viewer_id, new), strict=True):
                self._counts[number] = count if count is None else int(count)
                if count is not None:
                    self._as_of = min(self._as_of, count.as_of)
        stale = self._is_stale()
        counts = (None if stale else self._counts[number] for number in numbers)
        return [None if count is None else FriendCount(count, self._as_of) for count in counts]

    # Of who looks after it

    @property
    def numbers(self) -> Collection[int]:
        """The games whose friend counts are looked after."""
        return self._counts.keys()

    @property
    def as_of(self) -> float:
        """When the friend counts were true, in Unix seconds."""
        return self._as_of

    def take(self, counts: Mapping[int, int | None], as_of: float) -> frozenset[int]:
        """Take newer friend counts; returns the games whose count is another now. Older ones change nothing."""
        if as_of < self._as_of < float("inf"):
            return frozenset()
        changed = {number for number, told in self._counts.items() if number in counts and counts[number] != told}
        for number in changed:
            self._counts[number] = counts[number]
        self._as_of = as_of
        return frozenset(changed)

    def not_read(self) -> frozenset[int]:
        """The friend counts could not be read: in time nobody knows them any more. Returns the games that concerns."""
        if not self._is_stale():
            return frozenset()
        known = frozenset(number for number, count in self._counts.items() if count is not None)
        self._counts = dict.fromkeys(self._counts)
        return known

    def tell(self, changed: frozenset[int]) -> None:
        """Tell the subscriber of these and of the live counts that changed, if any did."""
        changed |= self._live.take()
        if changed:
            self._pending |= changed
            self._wake.set()

    def _is_stale(self) -> bool:
        return self._clock() - self._as_of > self._stale_max_seconds
