"""What resolvers work with: made once by the application and handed down."""

from __future__ import annotations

from dataclasses import dataclass

from graph.catalogue import CatalogueMemory
from graph.deleted_users import DeletedUsers
from graph.social_graph import SocialGraph
from loaders.friend_counts import FriendCounts
from loaders.page_watch import FriendPages
from loaders.registry import Loaders
from loaders.watched_pages import WatchedPages
from resolvers.catalog_orders import CatalogOrders
from resolvers.errors import Unavailable
from signals.live_sessions import LiveSessions
from signals.live_totals import LiveTotals


@dataclass(frozen=True, slots=True)
class Services:
    """The stores and tables of this process."""

    graph: SocialGraph
    catalogue: CatalogueMemory
    deleted_users: DeletedUsers
    catalog_orders: CatalogOrders
    friend_counts: FriendCounts
    watched_pages: WatchedPages
    live_sessions: LiveSessions
    live_totals: LiveTotals
    session_ttl_seconds: int

    def loaders(self, viewer_id: int | None, friend_pages: FriendPages | None = None) -> Loaders:
        """Fresh DataLoaders for one request or one subscription event, which may bring its friend counts."""
        return Loaders(self.graph, friend_pages or self.friend_counts, self.live_totals, viewer_id, Unavailable)
