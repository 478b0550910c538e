"""What a subscriber is told of friend counts: never an older one after a newer, and nothing for good while unknown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loaders.friend_counts import FriendCount
from loaders.page_watch import PageWatch
from signals.change_feed import ChangeFeed

VIEWER = 1
NOW = 1_000.0


class FirstRead:
    """Where counts are read for the first time: what it was told to say."""

    def __init__(self, counts: dict[int, int | None]) -> None:
        self.counts = counts
        self.asked: list[list[int]] = []

    async def page(self, viewer_id: int, numbers: Sequence[int]) -> list[FriendCount | None]:
        assert viewer_id == VIEWER
        self.asked.append(list(numbers))
        counts = (self.counts[number] for number in numbers)
        return [None if count is None else FriendCount(count, NOW) for count in counts]


class Watches:
    """Nobody looks after the watch but the test."""

    def add(self, watch: PageWatch) -> None:
        pass

    def remove(self, watch: PageWatch) -> None:
        pass


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def first_read() -> FirstRead:
    return FirstRead({7: 3, 8: 0, 9: None})


@pytest.fixture
def feed() -> ChangeFeed:
    return ChangeFeed()


@pytest.fixture
def watch(clock: Clock, first_read: FirstRead, feed: ChangeFeed) -> PageWatch:
    return PageWatch(Watches(), first_read, feed.subscribe([7, 8, 9]), VIEWER, stale_max_seconds=60, clock=clock)


async def test_counts_are_read_once_and_then_what_was_taken_is_told(watch: PageWatch, first_read: FirstRead) -> None:
    assert await watch.page(VIEWER, [7, 8, 9]) == [3, 0, None]
    assert watch.take({7: 4, 8: 0, 9: 1}, NOW + 1) == {7, 9}
    page = await watch.page(VIEWER, [9, 7])
    assert page == [1, 4]
    assert {count.as_of for count in page if count is not None} == {NOW + 1}
    assert first_read.asked == [[7, 8, 9]]


async def test_an_older_look_changes_nothing(watch: PageWatch) -> None:
    await watch.page(VIEWER, [7])
    assert watch.take({7: 4}, NOW + 2) == {7}
    assert watch.take({7: 3}, NOW + 1) == frozenset()
    assert await watch.page(VIEWER, [7]) == [4]


async def test_what_cannot_be_read_for_too_long_becomes_unknown_once_and_known_again(
    watch: PageWatch, clock: Clock
) -> None:
    await watch.page(VIEWER, [7, 8, 9])
    clock.now = NOW + 60
    assert watch.not_read() == frozenset()
    assert await watch.page(VIEWER, [7]) == [3]
    clock.now = NOW + 60.1
    assert await watch.page(VIEWER, [7]) == [None]
    assert watch.not_read() == {7, 8}
    assert watch.not_read() == frozenset()
    assert watch.take({7: 3, 8: 0, 9: 0}, clock.now) == {7, 8, 9}
    assert await watch.page(VIEWER, [7, 8, 9]) == [3, 0, 0]


async def test_both_signals_add_up_to_one_event(watch: PageWatch, feed: ChangeFeed) -> None:
    async with watch:
        await watch.page(VIEWER, [7, 8])
        feed.tell({8, 55})
        watch.tell(watch.take({7: 4, 8: 0}, NOW + 1))
        watch.tell(watch.take({7: 5, 8: 0}, NOW + 2))
        assert await anext(watch) == {7, 8}
        watch.tell(frozenset())
        feed.tell({9})
        watch.tell(frozenset())
        assert await anext(watch) == {9}
        assert feed.subscribers == 1
    assert feed.subscribers == 0
