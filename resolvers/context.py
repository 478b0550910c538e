"""Who asks, and with what: the context of one GraphQL operation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import strawberry

from loaders.page_watch import FriendPages
from loaders.registry import Loaders
from resolvers.errors import Forbidden, Unauthenticated
from resolvers.services import Services


@dataclass
class Context:
    """One operation: its viewer, the viewer's scopes, and the DataLoaders made for it."""

    services: Services
    viewer_id: int | None
    scopes: frozenset[str]
    request_id: str
    friend_pages: FriendPages | None = None  # what a subscriber is told, in place of what is read

    @cached_property
    def loaders(self) -> Loaders:
        """The DataLoaders of this operation."""
        return self.services.loaders(self.viewer_id, self.friend_pages)

    def require_viewer(self) -> int:
        """The viewer's id. Raises Unauthenticated without one."""
        if self.viewer_id is None:
            raise Unauthenticated("This needs a token: send it as `Authorization: Bearer …`.")
        return self.viewer_id

    def require_scope(self, scope: str) -> None:
        """Raises Unauthenticated without a token, Forbidden where the token lacks the scope (or `admin`)."""
        self.require_viewer()
        if scope not in self.scopes and "admin" not in self.scopes:
            raise Forbidden(f"This needs a token with the scope `{scope}`.")


Info: TypeAlias = strawberry.Info[Context, None]
