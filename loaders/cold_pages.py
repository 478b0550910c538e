"""Pages of viewers who have no view yet: counted from the friends' play logs, which then become the view.

One read of the truth serves every page that waits for it, and the view that is built behind them. Pages of viewers with
very many friends may be counted from player bitmaps instead (`loaders.bitmap_pages`); views never are.
"""

from __future__ import annotations

import asyncio
import contextvars
import secrets
import time
from collections.abc import Collection, Sequence

import structlog
from redis.exceptions import RedisError

from graph.social_graph import GraphError, SeenLog, SocialGraph
from graph.visibility import CursorState
from loaders.bitmap_pages import BitmapPages
from loaders.friend_plays import FriendPlays
from signals.views import BuildStatus, FriendViews

log = structlog.get_logger(__name__)

#: A claim slower than this is given up: the page is answered all the same, and the view built at another read.
CLAIM_SECONDS = 0.1
#: Rounds of a build against friends that change meanwhile; then the next read starts over.
BUILD_ROUNDS = 8
#: Builds under way at once, each holding its friends' logs. Past these, pages are answered and nothing is built.
MAX_BUILDS = 64


class _Flight:
    """One read of the truth for one viewer, and all who wait for it. Where nobody does, it is for the view alone."""

    __slots__ = ("awaited", "begun", "task")

    def __init__(self) -> None:
        self.awaited = False
        self.begun = False
        self.task: asyncio.Task[FriendPlays | None] | None = None


class ColdPages:
    """Answers pages from the truth and builds views from what it read. One for the process.

    Args:
        graph: the truth.
        views: where the views are built.
        bitmap_pages: counts pages where that is cheaper than reading logs; None: logs always.
        claim_seconds: how long a page may wait for Redis before it goes on without building.
        max_builds: builds under way at once.
    """

    def __init__(
        self,
        graph: SocialGraph,
        views: FriendViews,
        bitmap_pages: BitmapPages | None = None,
        *,
        claim_seconds: float = CLAIM_SECONDS,
        max_builds: int = MAX_BUILDS,
    ) -> None:
        self._graph = graph
        self._views = views
        self._bitmap_pages = bitmap_pages
        self._claim_seconds = claim_seconds
        self._max_builds = max_builds
        self._newest: dict[int, _Flight] = {}
        self._flights: set[asyncio.Task[FriendPlays | None]] = set()
        self._builds: dict[int, asyncio.Task[None]] = {}
        #: Pages answered, by what they were counted from.
        self.answered = {"logs": 0, "bitmaps": 0}
        #: Builds of views, by what came of them. REFUSED: another builder took over, or the view was evicted.
        self.built = {"built": 0, "refused": 0, "failed": 0}

    async def counts(self, viewer_id: int, numbers: Sequence[int], *, claim: bool = True) -> list[int]:
        """How many friends played each game, as the truth has it at some moment after this was called.

        Args:
            viewer_id: who looks.
            numbers: game numbers.
            claim: whether to build a view as well. A flight that others began may build one all the same.

        Returns:
            The counts in the order asked.

        Raises:
            GraphError: the truth cannot be read.
        """
        if self._bitmap_pages is not None:
            counts = await self._bitmap_pages.counts(viewer_id, numbers)
            if counts is not None:
                self.answered["bitmaps"] += 1
                if claim:
                    # In a context of its own, as the build: the page is answered.
                    contextvars.Context().run(self._join, viewer_id, claim)
                return counts
        flight = self._join(viewer_id, claim)
        flight.awaited = True
        assert flight.task is not None  # noqa: S101  # for mypy: _join starts it
        plays = await asyncio.shield(flight.task)  # whoever goes away leaves the others' flight alone
        assert plays is not None  # noqa: S101  # for mypy: an awaited flight reads
        self.answered["logs"] += 1
        return plays.counts(numbers)

    @property
    def builds_running(self) -> int:
        """Builds under way."""
        return len(self._builds)

    async def close(self) -> None:
        """Wait for what is under way."""
        while self._flights or self._builds:
            await asyncio.wait([*self._flights, *self._builds.values()])
        if self._bitmap_pages is not None:
            await self._bitmap_pages.close()

    def _join(self, viewer_id: int, claim: bool) -> _Flight:
        """The viewer's flight whose read of the truth has not begun; a new one where there is none.

        One that has begun may miss a write that this caller already knows of. So at most one flies and one waits.
        """
        newest = self._newest.get(viewer_id)
        if newest is not None and not newest.begun:
            return newest
        flight = self._newest[viewer_id] = _Flight()
        before = None if newest is None else newest.task
        flight.task = asyncio.create_task(self._fly(viewer_id, flight, before, claim), name=f"cold-page-{viewer_id}")
        self._flights.add(flight.task)
        flight.task.add_done_callback(self._flights.discard)
        return flight

    async def _fly(
        self, viewer_id: int, flight: _Flight, before: asyncio.Task[FriendPlays | None] | None, claim: bool
    ) -> FriendPlays | None:
        try:
            if before is not None:
                await asyncio.wait([before])
                del before  # its logs go as soon as its own waiters have their answers
            # The claim comes before the read: what changes after the read then finds the claim, and is marked there.
            token = await self._claim(viewer_id) if claim else None
            if token is None and not flight.awaited:
                return None
            flight.begun = True
            begun = time.perf_counter()
            seen = await self._graph.seen_logs(viewer_id)
            plays = FriendPlays(seen)
            if self._bitmap_pages is not None:
                self._bitmap_pages.logs_were_read(viewer_id, seen, time.perf_counter() - begun)
        finally:
            if self._newest.get(viewer_id) is flight:
                del self._newest[viewer_id]
        if token is not None:
            # In a context of its own: the build is not on the account of the request that met the cold page.
            build = self._build(viewer_id, token, seen, plays)
            task = asyncio.create_task(build, name=f"build-{viewer_id}", context=contextvars.Context())
            self._builds[viewer_id] = task
            task.add_done_callback(lambda _: self._builds.pop(viewer_id, None))
        return plays

    async def _claim(self, viewer_id: int) -> str | None:
        if viewer_id in self._builds or len(self._builds) >= self._max_builds:
            return None
        try:
            async with asyncio.timeout(self._claim_seconds):
                return await self._views.claim(viewer_id, secrets.token_hex(16))
        except (RedisError, TimeoutError) as error:
            log.warning("view_not_claimed", viewer_id=viewer_id, reason=repr(error))
            return None

    async def _build(self, viewer_id: int, token: str, seen: dict[int, SeenLog], plays: FriendPlays) -> None:
        """Build the view from what was read; what changed meanwhile is read again. What fails leaves it cold."""
        outcome = "failed"
        try:
            for _ in range(BUILD_ROUNDS):
                edges = {
                    owner_id: (owner.version, owner.state, len(owner.log) // 4) for owner_id, owner in seen.items()
                }
                result = await self._views.build(viewer_id, token, secrets.token_hex(16), edges, plays.all())
                if result.status is not BuildStatus.DIRTY:
                    outcome = "built" if result.status is BuildStatus.BUILT else "refused"
                    return
                token = result.token
                seen = await self._read_again(viewer_id, seen, result.dirty)
                plays = FriendPlays(seen)
            log.warning("view_not_built", viewer_id=viewer_id, reason=f"friends changed in {BUILD_ROUNDS} rounds")
        except (RedisError, GraphError) as error:
            log.warning("view_not_built", viewer_id=viewer_id, reason=repr(error))
        except Exception:
            log.exception("view_not_built", viewer_id=viewer_id)
        finally:
            self.built[outcome] += 1

    async def _read_again(
        self, viewer_id: int, seen: dict[int, SeenLog], owner_ids: Collection[int]
    ) -> dict[int, SeenLog]:
        again = await self._graph.seen_logs(viewer_id, owner_ids)
        # Edges that are off are not written: whoever would still tell this view of an older "on" has another token.
        return {owner_id: owner for owner_id, owner in {**seen, **again}.items() if owner.state is not CursorState.OFF}
