"""`Mutation`."""

from __future__ import annotations

from typing import Annotated

import strawberry

from resolvers import catalog, friendships, plays, privacy, sessions, users
from resolvers.context import Info
from schema.game import Game
from schema.scalars import DateTime
from schema.user import User


@strawberry.input(description="A game to create or to rename.")
class GameInput:
    id: strawberry.ID = strawberry.field(description="Decimal id, 1 to 2^63-1.")
    name: str = strawberry.field(description="Title, 1 to 200 characters.")
    image_url: str | None = strawberry.field(
        default=None, description="Address of a picture, http or https. Null removes it."
    )


@strawberry.type(description="What became of a play.")
class RecordPlayPayload:
    recorded: bool = strawberry.field(description="The play is kept, and outlives a power cut.")
    first: bool = strawberry.field(
        description="Whether it was the viewer's first play of the game: only that one moves friends' counts."
    )
    game: Game = strawberry.field(description="The game.")


@strawberry.type(description="What became of a heartbeat.")
class HeartbeatPayload:
    live: bool = strawberry.field(
        description="Whether the session counts as live. False where it was ended within the last session TTL: a late "
        "heartbeat does not bring it back."
    )
    expires_at: DateTime | None = strawberry.field(
        description="When the session stops counting unless another heartbeat comes. Null where it is not live."
    )
    next_heartbeat_in_seconds: float = strawberry.field(
        description="When to send the next heartbeat, in seconds from now. It varies a little, so that clients spread."
    )
    game: Game = strawberry.field(description="The game.")


@strawberry.type(description="What became of the end of a session.")
class EndSessionPayload:
    ended: bool = strawberry.field(
        description="Whether a live session was ended. False where none had this id: nothing changed."
    )


@strawberry.type(description="A block after a change.")
class BlockPayload:
    blocked: bool = strawberry.field(description="Whether the viewer blocks the user now.")
    user: User = strawberry.field(description="The other user.")


@strawberry.type(description="Whether the viewer's activity is hidden, after a change.")
class ActivityPayload:
    activity_hidden: bool = strawberry.field(description="Whether it is hidden now.")


@strawberry.type(description="What became of a deletion.")
class DeleteUserPayload:
    deleted: bool = strawberry.field(
        description="True where this call deleted the user, false where they were deleted already."
    )


@strawberry.type(description="A friendship after a change.")
class FriendshipPayload:
    friends: bool = strawberry.field(description="Whether the two are friends now.")
    version: int = strawberry.field(
        description="Grows with every change between these two users; a call that changed nothing keeps it."
    )


async def _save_games(
    info: Info,
    games: Annotated[list[GameInput], strawberry.argument(description="Games to create or to rename, 1 to 100.")],
) -> object:
    return await catalog.save_games(info, games)


@strawberry.type(description="What can be changed.")
class Mutation:
    record_play = strawberry.field(
        resolver=plays.record_play,
        graphql_type=RecordPlayPayload,
        description="Say that the viewer played a game. Safe to repeat: the first play of a game counts once, in the "
        "pages of all the viewer's friends, within a second.",
    )
    heartbeat = strawberry.field(
        resolver=sessions.heartbeat,
        graphql_type=HeartbeatPayload,
        description="Say that a session of the viewer is in a game now. A session that names another game moves "
        "there. The server's clock decides how long it counts.",
    )
    end_session = strawberry.field(
        resolver=sessions.end_session,
        graphql_type=EndSessionPayload,
        description="Say that a session of the viewer is over. Optional: a session without heartbeats ends by itself.",
    )
    block = strawberry.field(
        resolver=privacy.block,
        graphql_type=BlockPayload,
        description="Block another user: neither is in the other's friend counts and lists any more, from within a "
        "second. A friendship between the two stays, unseen, and shows again when nobody blocks the other. The other "
        "user is not told. Safe to repeat.",
    )
    unblock = strawberry.field(
        resolver=privacy.unblock,
        graphql_type=BlockPayload,
        description="Block another user no longer. A block by the other user stays. Safe to repeat.",
    )
    set_activity_hidden = strawberry.field(
        resolver=privacy.set_activity_hidden,
        graphql_type=ActivityPayload,
        description="Hide the viewer's activity, or show it again: plays from friends' counts, sessions from live "
        "counts. Friendships stay, and so does what the viewer sees of others. Safe to repeat.",
    )
    add_friendship = strawberry.field(
        resolver=friendships.add_friendship,
        graphql_type=FriendshipPayload,
        description="Make two users friends. Needs the scope `friendships:write`. Safe to repeat. A block between the "
        "two stands: the friendship shows once it is taken back.",
    )
    remove_friendship = strawberry.field(
        resolver=friendships.remove_friendship,
        graphql_type=FriendshipPayload,
        description="Make two users friends no longer. Needs the scope `friendships:write`. Safe to repeat.",
    )
    delete_user = strawberry.field(
        resolver=users.delete_user,
        graphql_type=DeleteUserPayload,
        description="Delete a user for good. Needs the scope `users:write`. They leave all counts and lists, their "
        "tokens are refused (by every server within two seconds), and the id never comes back: imports and changes "
        "that name it are refused. An id that was never seen is deleted as well, so that nothing that is still on its "
        "way can create it. Safe to repeat.",
    )
    save_games = strawberry.field(
        resolver=_save_games,
        graphql_type=list[Game],
        description="Create or rename games. Needs the scope `catalog:write`. All of them or, on an error, none; "
        "every server shows them within five seconds.",
    )
