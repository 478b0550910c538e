"""The DataLoader behind `Game.friendsPlayed`: one page of counts for all games of a request."""

from __future__ import annotations

from typing import TypeAlias

from aiodataloader import DataLoader

from loaders.friend_counts import FriendCount, FriendCounts

Key: TypeAlias = int  # a game's number
Result: TypeAlias = FriendCount | None


class FriendsPlayedLoader(DataLoader[Key, Result]):
    """Friend counts for one viewer."""

    def __init__(self, friend_counts: FriendCounts, viewer_id: int) -> None:
        super().__init__()
        self._friend_counts = friend_counts
        self._viewer_id = viewer_id

    async def batch_load_fn(self, keys: list[Key]) -> list[Result]:
        """One page for all keys."""
        return await self._friend_counts.page(self._viewer_id, keys)
