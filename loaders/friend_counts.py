"""How many friends played each game of a page: from the resident view, else from the truth, else the last known.

A view with friends whose plays are pulled catches up with them first (`loaders.pulled_friends`).

Each source has a deadline. Redis away or slow sends a page to the truth; the truth away as well, to the last known
page if it is young enough. What nobody knows is None, never 0.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import structlog
from redis.exceptions import RedisError

from graph.social_graph import GraphError
from loaders.cold_pages import ColdPages
from loaders.pulled_friends import PulledFriends
from loaders.view_reads import ViewReads
from signals.views import FriendViews, Page

log = structlog.get_logger(__name__)

#: A truth that reads friends' whole logs is given more time than Redis: behind it only old values are left.
TRUTH_DEADLINE_FACTOR = 10
#: What a view may take to catch up with pulled friends; then the page is counted from the truth.
CATCH_UP_DEADLINE_FACTOR = 4
#: How often a page is read while its view catches up: it may be built anew, or a friend play again, in between.
CATCH_UP_READS = 4
#: After Redis failed or was too slow, pages go straight to the truth for this long, instead of waiting each.
REDIS_REST_SECONDS = 1.0
LAST_KNOWN_VIEWERS = 10_000


class FriendCount(int):
    """How many friends played a game. A number, so that a field gives it as it is; `as_of` is when it was true (Unix
    seconds).
    """

    as_of: float

    def __new__(cls, count: int, as_of: float) -> Self:
        number = super().__new__(cls, count)
        number.as_of = as_of
        return number


class _KnownPage(NamedTuple):
    counts: dict[int, int]
    as_of: float


class FriendCounts:
    """Friend counts for pages, with their fallbacks. One for the process."""

    def __init__(
        self,
        views: FriendViews,
        cold_pages: ColdPages,
        view_reads: ViewReads,
        pulled_friends: PulledFriends,
        *,
        deadline_ms: int,
        stale_max_seconds: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._views = views
        self._cold_pages = cold_pages
        self._view_reads = view_reads
        self._pulled_friends = pulled_friends
        self._deadline_seconds = deadline_ms / 1000
        self._stale_max_seconds = stale_max_seconds
        self._clock = clock
        self._redis_rests_until = 0.0
        self._last_known: OrderedDict[int, _KnownPage] = OrderedDict()

    async def page(self, viewer_id: int, numbers: Sequence[int]) -> list[FriendCount | None]:
        """Counts for game numbers, in the order asked. None where no source knows one."""
        resident = await self._resident_counts(viewer_id, numbers)
        if resident is not None:
            self._view_reads.read(viewer_id)
            return self._remember(viewer_id, numbers, *resident)
        as_of = self._clock()
        try:
            async with asyncio.timeout(self._deadline_seconds * TRUTH_DEADLINE_FACTOR):
                counts = await self._cold_pages.counts(viewer_id, numbers, claim=not self.redis_rests)
        except (GraphError, TimeoutError) as error:
            log.warning("friend_counts_unknown", reason=repr(error))
            return self._last_known_page(viewer_id, numbers)
        return self._remember(viewer_id, numbers, counts, as_of)

    async def resident(self, viewer_id: int, numbers: Sequence[int]) -> tuple[Sequence[int], float] | None:
        """Counts of the viewer's view alone and when they were true (Unix seconds); the truth is not asked for them.

        None: there is no view, or it cannot be read or caught up just now.
        """
        found = await self._resident_counts(viewer_id, numbers)
        if found is not None:
            self._view_reads.read(viewer_id)
        return found

    async def _resident_counts(self, viewer_id: int, numbers: Sequence[int]) -> tuple[Sequence[int], float] | None:
        """Counts of the view and when they were true; None where there is no view, or it cannot catch up just now."""
        for _ in range(CATCH_UP_READS):
            as_of = self._clock()
            page = await self._resident_page(viewer_id, numbers)
            if page is None:
                return None
            if not page.pull_cursors:
                return page.counts, as_of
            try:
                async with asyncio.timeout(self._deadline_seconds * CATCH_UP_DEADLINE_FACTOR):
                    age_seconds = await self._pulled_friends.age_seconds(viewer_id, page.pull_cursors)
            except (GraphError, RedisError, OSError, TimeoutError) as error:
                log.warning("view_not_caught_up", reason=repr(error))
                return None
            if age_seconds is not None:
                return page.counts, min(as_of, self._clock() - age_seconds)
        return None

    async def _resident_page(self, viewer_id: int, numbers: Sequence[int]) -> Page | None:
        if self.redis_rests:
            return None
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await self._views.page(viewer_id, numbers)
        except (RedisError, OSError, TimeoutError) as error:
            if not self.redis_rests:  # else another page said it this moment
                log.warning("friend_views_away", reason=repr(error))
            self._redis_rests_until = time.monotonic() + REDIS_REST_SECONDS
            return None

    @property
    def redis_rests(self) -> bool:
        """Whether Redis failed a moment ago, so that pages are counted from the truth."""
        return time.monotonic() < self._redis_rests_until

    def _remember(
        self, viewer_id: int, numbers: Sequence[int], counts: Sequence[int], as_of: float
    ) -> list[FriendCount | None]:
        self._last_known[viewer_id] = _KnownPage(dict(zip(numbers, counts, strict=True)), as_of)
        self._last_known.move_to_end(viewer_id)
        if len(self._last_known) > LAST_KNOWN_VIEWERS:
            self._last_known.popitem(last=False)
        return [FriendCount(count, as_of) for count in counts]

    def _last_known_page(self, viewer_id: int, numbers: Sequence[int]) -> list[FriendCount | None]:
        known = self._last_known.get(viewer_id)
        if known is None or self._clock() - known.as_of > self._stale_max_seconds:
            return [None] * len(numbers)
        return [
            FriendCount(known.counts[number], known.as_of) if number in known.counts else None for number in numbers
        ]
