"""`addFriendship` and `removeFriendship`."""

from __future__ import annotations

from typing import Annotated

import strawberry

from graph.social_graph import Friendship
from resolvers.context import Info
from resolvers.errors import BadInput
from resolvers.identifiers import parse_id
from resolvers.truth import truth_errors

SCOPE = "friendships:write"

UserId = Annotated[strawberry.ID, strawberry.argument(description="Id of one of the two users.")]
FriendId = Annotated[strawberry.ID, strawberry.argument(description="Id of the other user.")]


async def add_friendship(info: Info, user_id: UserId, friend_id: FriendId) -> Friendship:
    """Make two users friends."""
    return await _set_friendship(info, user_id, friend_id, friends=True)


async def remove_friendship(info: Info, user_id: UserId, friend_id: FriendId) -> Friendship:
    """Part two users."""
    return await _set_friendship(info, user_id, friend_id, friends=False)


async def _set_friendship(info: Info, user_id: str, friend_id: str, *, friends: bool) -> Friendship:
    info.context.require_scope(SCOPE)
    user, friend = parse_id(user_id, "userId"), parse_id(friend_id, "friendId")
    if user == friend:
        raise BadInput("friendId", "must be another user than userId")
    with truth_errors(userId=user, friendId=friend):
        return await info.context.services.graph.set_friendship(user, friend, friends)
