"""`Viewer`: the user of the token."""

from __future__ import annotations

import strawberry

from resolvers import privacy
from resolvers import viewer as viewer_fields
from schema.connections import GameConnection, UserConnection
from schema.user import User


@strawberry.type(description="The user whose token came with the request.")
class Viewer:
    user = strawberry.field(resolver=viewer_fields.user, graphql_type=User, description="The viewer as a user.")
    friends = strawberry.field(
        resolver=viewer_fields.friends,
        graphql_type=UserConnection,
        description="The viewer's friends, by ascending id. Friends with a block between them are left out, and those "
        "whose account was deleted; those who hide their activity are not.",
    )
    games = strawberry.field(
        resolver=viewer_fields.games,
        graphql_type=GameConnection,
        description="The games the viewer played, the latest first play first.",
    )
    activity_hidden = strawberry.field(
        resolver=privacy.activity_hidden,
        graphql_type=bool,
        description="Whether the viewer hides their activity: then their plays are in no friend's counts and their "
        "sessions in no live count. What the viewer sees of others stays.",
    )
    blocked = strawberry.field(
        resolver=privacy.blocked,
        graphql_type=UserConnection,
        description="Whom the viewer blocks, by ascending id. Nobody is told who blocks them.",
    )
