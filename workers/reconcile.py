"""Reconcile: every resident view compared with the truth, and what drifted evicted where that is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from graph.social_graph import SocialGraph
from signals.shards import SHARDS
from signals.views import FriendViews
from workers.in_flight import InFlight
from workers.view_comparison import Comparison, Drift, compare, still_behind

#: Views compared at a stretch.
VIEWS_AT_ONCE = 256
#: Of those, under way at one time: each holds its friends' logs.
COMPARED_AT_ONCE = 4


@dataclass(slots=True)
class Report:
    """What was found.

    `users` is how many views were compared and `pairs` how many counts and cursors of theirs. `drift` holds what is
    wrong, by viewer. `in_flight` are viewers whose views lack events that nobody has handled in the time that was given
    to them. `without_view` had none, or one being built. `repaired` were evicted.
    """

    users: int = 0
    pairs: int = 0
    drift: dict[int, list[Drift]] = field(default_factory=dict)
    in_flight: list[int] = field(default_factory=list)
    without_view: int = 0
    repaired: int = 0

    @property
    def drift_pairs(self) -> int:
        """How many pairs are wrong."""
        return sum(map(len, self.drift.values()))


class Reconcile:
    """Compares views with the truth.

    Args:
        graph: the truth.
        views: what is compared with it.
        in_flight: the events between the two.
        repair: whether views that drifted are evicted; the next read builds them again.
    """

    def __init__(self, graph: SocialGraph, views: FriendViews, in_flight: InFlight, *, repair: bool) -> None:
        self._graph = graph
        self._views = views
        self._in_flight = in_flight
        self._repair = repair

    async def all(self, advance: Callable[[Report], None] = lambda _: None) -> Report:
        """Compare every view that there is.

        Args:
            advance: called with what was found so far, every few hundred views.

        Raises:
            GraphError, redis.exceptions.RedisError: a store is away.
        """
        report = Report()
        behind: dict[int, Comparison] = {}
        residents: list[int] = []
        for shard in range(SHARDS):
            residents += await self._views.residents(shard)
            while len(residents) >= VIEWS_AT_ONCE or (residents and shard == SHARDS - 1):
                part, residents = residents[:VIEWS_AT_ONCE], residents[VIEWS_AT_ONCE:]
                behind |= await self._first_look(part, report)
                advance(report)
        await self._second_look(behind, report)
        return report

    async def views(self, viewer_ids: Iterable[int]) -> Report:
        """Compare some views. Raises as `all` does."""
        report = Report()
        await self._second_look(await self._first_look(list(viewer_ids), report), report)
        return report

    async def _first_look(self, viewers: Sequence[int], report: Report) -> dict[int, Comparison]:
        """Compare views; returns those that lack something, to be looked at again."""
        looks = await self._look(viewers)
        report.users += len(looks)
        report.pairs += sum(look.pairs for look in looks)
        report.without_view += len(viewers) - len(looks)
        await self._found({look.viewer_id: look.drift for look in looks if look.drift}, report)
        return {look.viewer_id: look for look in looks if look.behind and not look.drift}

    async def _second_look(self, behind: dict[int, Comparison], report: Report) -> None:
        """Once the events of then are handled, compare these again."""
        if not behind:
            return
        settled = await self._in_flight.settle()
        viewers = list(behind)
        for start in range(0, len(viewers), VIEWS_AT_ONCE):
            drift: dict[int, list[Drift]] = {}
            for now in await self._look(viewers[start : start + VIEWS_AT_ONCE]):
                lacking = still_behind(behind[now.viewer_id], now)
                if settled or now.drift:
                    drift[now.viewer_id] = now.drift + (lacking if settled else [])
                elif lacking:
                    report.in_flight.append(now.viewer_id)
            await self._found({viewer_id: found for viewer_id, found in drift.items() if found}, report)

    async def _found(self, drift: dict[int, list[Drift]], report: Report) -> None:
        report.drift |= drift
        if self._repair and drift:
            await self._views.evict(sorted(drift))
            report.repaired += len(drift)

    async def _look(self, viewers: Sequence[int]) -> list[Comparison]:
        """Compare these views now; those that there are."""
        turns = asyncio.Semaphore(COMPARED_AT_ONCE)

        async def look(viewer_id: int) -> Comparison | None:
            async with turns:
                return await compare(self._graph, self._views, viewer_id)

        looks = await asyncio.gather(*map(look, viewers), return_exceptions=True)
        found = []
        for comparison in looks:
            if isinstance(comparison, BaseException):
                raise comparison
            if comparison is not None:
                found.append(comparison)
        return found
