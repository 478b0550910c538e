"""`Game.friendsPlayed` and what is derived from it."""

from __future__ import annotations

from asyncio import Future
from typing import Annotated, cast

import strawberry

from graph.social_graph import Game
from loaders.friend_counts import FriendCount
from resolvers import labels
from resolvers.context import Info
from resolvers.errors import BadInput

MAX_CAP = 1_000_000


def count(root: Game, info: Info) -> Future[FriendCount] | None:
    """How many of the viewer's friends played the game; None without a viewer.

    The loader's own future: an `async def` here would cost a page a task for each of its games.
    """
    loader = info.context.loaders.friends_played
    return None if loader is None else cast("Future[FriendCount]", loader.load(root.number))


async def as_of(root: Game, info: Info) -> float | None:
    """When that count was true."""
    found = count(root, info)
    return None if found is None else (await found).as_of


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
    found = count(root, info)
    return None if found is None else labels.capped(await found, cap)
