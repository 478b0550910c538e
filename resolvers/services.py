"""What resolvers work with: made once by the application and handed down."""

from __future__ import annotations

from dataclasses import dataclass

from graph.catalogue import CatalogueMemory
from graph.deleted_users import DeletedUsers
from graph.social_graph import SocialGraph
from loaders.friend_counts import FriendCounts
from loaders.registry import Loaders
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
    live_sessions: LiveSessions
    live_totals: LiveTotals
    session_ttl_seconds: int

    def loaders(self, viewer_id: int | None) -> Loaders:
        """Fresh DataLoaders for one request or one subscription event."""
        return Loaders(self.graph, self.friend_counts, self.live_totals, viewer_id, Unavailable)
