"""Who waits for changes of which games. Equal selections share the work; what a slow reader misses adds up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Set
from types import TracebackType

#: Each then works for some 40 us, and whoever waits for Redis meanwhile has a deadline of 150 ms.
WOKEN_AT_ONCE = 256


class Changes:
    """One subscriber's changes: an async iterator of sets of game numbers, inside `async with`.

    What changes while the subscriber is busy adds up to one set, which never holds more than the games asked for.
    """

    def __init__(self, feed: ChangeFeed, numbers: frozenset[int]) -> None:
        self.numbers = numbers
        self._feed = feed
        self._pending: frozenset[int] = frozenset()
        self._wake = asyncio.Event()

    async def __aenter__(self) -> AsyncIterator[frozenset[int]]:
        """Begin: every change from here on is told."""
        self._feed.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End: nothing of it is left."""
        self._feed.remove(self)

    def __aiter__(self) -> AsyncIterator[frozenset[int]]:
        return self

    async def __anext__(self) -> frozenset[int]:
        await self._wake.wait()
        self._wake.clear()
        return self._take()

    def take(self) -> frozenset[int]:
        """What changed since the last time, without waiting: for who has a rhythm of its own. May be empty."""
        self._wake.clear()
        return self._take()

    def _take(self) -> frozenset[int]:
        changed, self._pending = self._pending, frozenset()
        return changed

    def add(self, changed: frozenset[int]) -> None:
        """Add to what is pending."""
        self._pending = self._pending | changed if self._pending else changed

    def wake(self) -> None:
        """Let the subscriber go on, if anything is pending still."""
        if self._pending:
            self._wake.set()


class ChangeFeed:
    """All subscribers of this process, by what they watch."""

    def __init__(self) -> None:
        self._selections: dict[frozenset[int], set[Changes]] = {}
        self.subscribers = 0

    def subscribe(self, numbers: Collection[int]) -> Changes:
        """Changes of the games with these numbers; they begin with `async with`."""
        return Changes(self, frozenset(numbers))

    def tell(self, changed: Set[int]) -> None:
        """These games changed."""
        told: list[Changes] = []
        for selection, subscribers in self._selections.items():
            if not selection.isdisjoint(changed):
                told += self._add(subscribers, frozenset(selection & changed))
        self._wake(told)

    def tell_all(self) -> None:
        """Everything changed for everybody."""
        told: list[Changes] = []
        for selection, subscribers in self._selections.items():
            told += self._add(subscribers, selection)
        self._wake(told)

    def _add(self, subscribers: set[Changes], changed: frozenset[int]) -> set[Changes]:
        for subscriber in subscribers:
            subscriber.add(changed)
        return subscribers

    def _wake(self, told: list[Changes], start: int = 0) -> None:
        """Wake some of them now and the rest in the next turns of the event loop, so that requests come in between."""
        end = start + WOKEN_AT_ONCE
        for subscriber in told[start:end]:
            subscriber.wake()
        if end < len(told):
            asyncio.get_running_loop().call_soon(self._wake, told, end)

    def add(self, changes: Changes) -> None:
        """Begin to tell a subscriber."""
        self._selections.setdefault(changes.numbers, set()).add(changes)
        self.subscribers += 1

    def remove(self, changes: Changes) -> None:
        """Stop telling a subscriber; a selection that nobody watches any more goes."""
        watching = self._selections[changes.numbers]
        watching.remove(changes)
        self.subscribers -= 1
        if not watching:
            del self._selections[changes.numbers]
