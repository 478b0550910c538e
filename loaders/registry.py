"""The DataLoaders of one request (or one subscription event), made when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

from graph.social_graph import SocialGraph
from loaders.friends_played import FriendsPlayedLoader
from loaders.live_players import LiveCount, TotalsLoader, live_count
from loaders.page_watch import FriendPages
from loaders.users import UserLoader
from signals.live_totals import LiveTotals


class Loaders:
    """One DataLoader a signal. Never shared by two requests: their caches must not outlive the answer.

    Args:
        graph: the truth.
        friend_pages: friend counts: of this process, or what a subscriber was told.
        live_totals: live counts of this process.
        viewer_id: who asks.
        unknown: makes the error of a signal, by its name, that nobody knows just now.
    """

    def __init__(
        self,
        graph: SocialGraph,
        friend_pages: FriendPages,
        live_totals: LiveTotals,
        viewer_id: int | None,
        unknown: Callable[[str], Exception],
    ) -> None:
        self._graph = graph
        self._friend_pages = friend_pages
        self._live_totals = live_totals
        self._viewer_id = viewer_id
        self._unknown = unknown

    @cached_property
    def friends_played(self) -> FriendsPlayedLoader | None:
        """Friend counts of the viewer; None without one."""
        if self._viewer_id is None:
            return None
        return FriendsPlayedLoader(self._friend_pages, self._viewer_id, partial(self._unknown, "friendsPlayed"))

    @cached_property
    def live_players(self) -> TotalsLoader[LiveCount]:
        """Live counts."""
        return TotalsLoader(partial(live_count, self._live_totals), partial(self._unknown, "livePlayers"))

    @cached_property
    def unique_players(self) -> TotalsLoader[int]:
        """Players of the day."""
        return TotalsLoader(self._live_totals.players_today, partial(self._unknown, "uniquePlayersToday"))

    @cached_property
    def users(self) -> UserLoader:
        """Users by id."""
        return UserLoader(self._graph)
