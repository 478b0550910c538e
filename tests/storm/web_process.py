"""The web processes of a schedule: what they answer pages with, and the lengths of pulled logs that they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from graph.social_graph import SocialGraph
from loaders.cold_pages import ColdPages
from loaders.friend_counts import CATCH_UP_READS
from loaders.pulled_friends import PulledFriends
from signals.pulled_logs import PulledLogs
from signals.redis import SharedRedis
from signals.views import FriendViews
from tests.storm.model_graph import ModelGraph
from tests.storm.view_operations import NUMBERS


class WebProcess:
    """Answers pages as `loaders.friend_counts` does, without its deadlines.

    Args:
        redis: where the views are.
        graph: the truth, as the process calls it.
        views: the views, as the process calls them.
        monotonic: the schedule's clock.
        make_pulled_friends: as `PulledFriends`; mutants hand in one that breaks a rule.
    """

    def __init__(
        self,
        redis: SharedRedis,
        graph: SocialGraph,
        views: FriendViews,
        monotonic: Callable[[], float],
        make_pulled_friends: Callable[..., PulledFriends],
    ) -> None:
        self._views = views
        self._cold_pages = ColdPages(graph, views, claim_seconds=1e6)
        self.lengths = PulledLogs(redis, 10**9, monotonic=monotonic)
        self._pulled_friends = make_pulled_friends(
            graph, views, self.lengths, wait_seconds=1e6, stale_max_seconds=float("inf"), monotonic=monotonic
        )

    async def cold_counts(self, viewer_id: int) -> dict[int, int] | None:
        """Read a page: what the truth was counted to be, None where the view answers."""
        for _ in range(CATCH_UP_READS):
            page = await self._views.page(viewer_id, NUMBERS)
            if page is None:
                break
            if not page.pull_cursors:
                return None
            if await self._pulled_friends.age_seconds(viewer_id, page.pull_cursors) is not None:
                return None
        return dict(zip(NUMBERS, await self._cold_pages.counts(viewer_id, NUMBERS), strict=True))


class PublishedLengths:
    """How long pulled logs were at some moment, of which each process learns now and then."""

    def __init__(self, truth: ModelGraph, processes: Sequence[WebProcess]) -> None:
        self._truth = truth
        self._processes = processes
        self._lengths: dict[int, int] = {}
        self._read_at = 0.0

    async def pass_on(self, random: Random, probability: float, now: float) -> None:
        """Read and publish them, and let a process look at what was published, each with a probability."""
        if random.random() < probability:
            self._lengths, self._read_at = await self._truth.pulled_logs(), now
        for process in self._processes:
            if random.random() < probability:
                process.lengths.take(self._lengths, self._read_at)
