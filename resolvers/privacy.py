"""`block`, `unblock`, `setActivityHidden`, and what the viewer sees of them.

Nothing here answers differently to whom is blocked: the other side of a block sees a friend less, as after parting.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import strawberry

from graph.social_graph import User
from graph.visibility import UserFlag
from resolvers.context import Info
from resolvers.cursors import check_first, decode_cursor, encode_cursor
from resolvers.errors import BadInput
from resolvers.identifiers import parse_id
from resolvers.pages import Edge, Page, page_of
from resolvers.truth import truth_errors
from resolvers.viewer import After, Viewer

BLOCKED = "blocked"

UserId = Annotated[strawberry.ID, strawberry.argument(description="Id of the other user.")]


class Block(NamedTuple):
    """Whether the viewer blocks another user now."""

    blocked: bool
    user: User


class Activity(NamedTuple):
    """Whether the viewer's activity is hidden now."""

    activity_hidden: bool


async def block(info: Info, user_id: UserId) -> Block:
    """Block another user."""
    return await _block(info, user_id, blocked=True)


async def unblock(info: Info, user_id: UserId) -> Block:
    """Block another user no longer."""
    return await _block(info, user_id, blocked=False)


async def _block(info: Info, user_id: str, *, blocked: bool) -> Block:
    viewer_id = info.context.require_viewer()
    other_id = parse_id(user_id, "userId")
    if other_id == viewer_id:
        raise BadInput("userId", "must be another user than the viewer")
    with truth_errors(userId=other_id):
        await info.context.services.graph.block(viewer_id, other_id, blocked)
        user = await info.context.loaders.users.load(other_id)
    return Block(blocked, user)


async def set_activity_hidden(
    info: Info,
    hidden: Annotated[bool, strawberry.argument(description="True hides, false shows again.")],
) -> Activity:
    """Hide the viewer's activity, or show it again."""
    viewer_id = info.context.require_viewer()
    with truth_errors():
        await info.context.services.graph.set_activity_hidden(viewer_id, hidden)
    return Activity(hidden)


async def activity_hidden(root: Viewer, info: Info) -> bool:
    """Whether the viewer's activity is hidden."""
    with truth_errors():
        state = await info.context.services.graph.user_state(root.user_id)
    return bool(state & UserFlag.HIDDEN)


async def blocked(
    root: Viewer,
    info: Info,
    first: Annotated[int, strawberry.argument(description="Length of the page, 1 to 100.")] = 50,
    after: After = None,
) -> Page[User]:
    """Whom the viewer blocks, by ascending id."""
    check_first(first)
    after_id = int(decode_cursor(after, BLOCKED, int)[0]) if after is not None else 0
    with truth_errors():
        found = await info.context.services.graph.blocked_page(root.user_id, first, after_id)
    edges = [Edge(encode_cursor(BLOCKED, user.id), user) for user in found.users]
    return page_of(edges, total_count=found.total, has_next=found.has_next, has_previous=after is not None)
