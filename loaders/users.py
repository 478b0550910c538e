"""The DataLoader for users by id."""

from __future__ import annotations

from typing import TypeAlias

from aiodataloader import DataLoader

from graph.social_graph import SocialGraph, User

Key: TypeAlias = int  # a user's id
Result: TypeAlias = User


class UserLoader(DataLoader[Key, Result]):
    """Users by id; one that was never written has no name."""

    def __init__(self, graph: SocialGraph) -> None:
        super().__init__()
        self._graph = graph

    async def batch_load_fn(self, keys: list[Key]) -> list[Result]:
        """One query for all keys."""
        found = await self._graph.users(keys)
        return [found.get(user_id) or User(user_id) for user_id in keys]
