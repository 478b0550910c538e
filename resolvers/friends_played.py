"""`Game.friendsPlayed` and what is derived from it."""

from __future__ import annotations

from asyncio import Future
from typing import Annotated

import strawberry

from graph.social_graph import Game
from loaders.friend_counts import FriendCount
from resolvers import labels
from resolvers.context import Info
from resolvers.errors import BadInput, Unavailable

MAX_CAP = 1_000_000


def friends_played(root: Game, info: Info) -> Future[FriendCount | None] | None:
    """The loader's own future: an `async def` here would cost each of a page's games a task."""
    loader = info.context.loaders.friends_played
    return None if loader is None else loader.load(root.number)


async def count(root: Game, info: Info) -> int | None:
    """How many of the viewer's friends played the game; None without a viewer."""
    found = await _known(root, info)
    return None if found is None else found.friends


async def as_of(root: Game, info: Info) -> float | None:
    """When that count was true."""
    found = await _known(root, info)
    return None if found is None else found.as_of


async def label(
    root: Game,
    info: Info,
    cap: Annotated[
        int, strawberry.argument(description='Counts above this show as the cap and a plus: "50+". 1 to 1,000,000.')
    ] = 50,
) -> str | None:
    """The count as text."""
    if not 1 <= cap <= MAX_CAP:
        raise BadInput("cap", f"must be 1 to {MAX_CAP:,}")
    found = await _known(root, info)
    return None if found is None else labels.capped(found.friends, cap)


async def _known(root: Game, info: Info) -> FriendCount | None:
    pending = friends_played(root, info)
    if pending is None:
        return None
    found = await pending
    if found is None:
        raise Unavailable("friendsPlayed")
    return found
