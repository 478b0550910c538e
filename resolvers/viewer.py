"""`viewer`: the user of the token, their friends and the games they played."""

from __future__ import annotations

from asyncio import Future
from dataclasses import dataclass
from typing import Annotated

import strawberry

from graph.social_graph import Game, User
from resolvers.context import Info
from resolvers.cursors import check_first, decode_cursor, encode_cursor
from resolvers.pages import Edge, Page, page_of
from resolvers.truth import truth_errors

FRIENDS = "friends"
PLAYED = "played"

After = Annotated[str | None, strawberry.argument(description="A cursor of this list: the page starts behind it.")]


@dataclass(frozen=True, slots=True)
class Viewer:
    """The user of the token."""

    user_id: int


def viewer(info: Info) -> Viewer | None:
    """The viewer, None without a token."""
    return None if info.context.viewer_id is None else Viewer(info.context.viewer_id)


def user(root: Viewer, info: Info) -> Future[User]:
    """The viewer as a user."""
    return info.context.loaders.users.load(root.user_id)


async def friends(
    root: Viewer,
    info: Info,
    first: Annotated[int, strawberry.argument(description="Length of the page, 1 to 100.")] = 50,
    after: After = None,
) -> Page[User]:
    """The viewer's friends, by ascending id."""
    check_first(first)
    after_id = int(decode_cursor(after, FRIENDS, int)[0]) if after is not None else 0
    with truth_errors():
        found = await info.context.services.graph.friend_page(root.user_id, first, after_id)
    edges = [Edge(encode_cursor(FRIENDS, friend.id), friend) for friend in found.users]
    return page_of(edges, total_count=found.total, has_next=found.has_next, has_previous=after is not None)


async def games(
    root: Viewer,
    info: Info,
    first: Annotated[int, strawberry.argument(description="Length of the page, 1 to 100.")] = 30,
    after: After = None,
) -> Page[Game]:
    """The games the viewer played, the latest first play first."""
    check_first(first)
    with truth_errors():
        played = await info.context.services.graph.played_games(root.user_id)
    # A cursor holds a place in the log (1, 2, 3 …), which only grows at its end: pages stay good while it does.
    end = min(int(decode_cursor(after, PLAYED, int)[0]) - 1, len(played)) if after is not None else len(played)
    start = max(end - first, 0)
    catalogue = info.context.services.catalogue
    edges = []
    for place in range(end, start, -1):
        game = catalogue.numbered(played[place - 1].number)
        if game is None:  # saved by another process a moment ago
            await catalogue.refresh(info.context.services.graph)
            game = catalogue.numbered(played[place - 1].number)
        if game is not None:
            edges.append(Edge(encode_cursor(PLAYED, place), game))
    return page_of(edges, total_count=len(played), has_next=start > 0, has_previous=after is not None)
