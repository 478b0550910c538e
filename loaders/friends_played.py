"""The DataLoader behind `Game.friendsPlayed`: one page of counts for all games of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from aiodataloader import DataLoader

from loaders.friend_counts import FriendCount
from loaders.page_watch import FriendPages

Key: TypeAlias = int  # a game's number
Result: TypeAlias = FriendCount | Exception


class FriendsPlayedLoader(DataLoader[Key, Result]):
    """Friend counts for one viewer.

    Args:
        friend_pages: where they come from.
        viewer_id: whose friends.
        unknown: makes the error of a game whose count nobody knows just now.
    """

    def __init__(self, friend_pages: FriendPages, viewer_id: int, unknown: Callable[[], Exception]) -> None:
        super().__init__()
        self._friend_pages = friend_pages
        self._viewer_id = viewer_id
        self._unknown = unknown

    async def batch_load_fn(self, keys: list[Key]) -> list[Result]:
        """One page for all keys."""
        page = await self._friend_pages.page(self._viewer_id, keys)
        return [self._unknown() if count is None else count for count in page]
