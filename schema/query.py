"""`Query`."""

from __future__ import annotations

import strawberry

from resolvers import catalog as catalog_fields
from resolvers import viewer as viewer_fields
from schema.connections import GameConnection
from schema.game import Game
from schema.viewer import Viewer


@strawberry.type(description="What can be read.")
class Query:
    games = strawberry.field(
        resolver=catalog_fields.games,
        graphql_type=list[Game | None],
        description="A page of games by id, in the order asked. An unknown id is null with a `NOT_FOUND` error at its "
        "place, and the other games still come; an id that is none refuses the whole page. The friend counts of a "
        "page cost one Redis round trip, its live counts and names none.",
    )
    game = strawberry.field(
        resolver=catalog_fields.game,
        graphql_type=Game | None,
        description="One game. Null with a `NOT_FOUND` error where no game has the id.",
    )
    catalog = strawberry.field(
        resolver=catalog_fields.catalog,
        graphql_type=GameConnection,
        description="All games, in pages, the ones with most live players first.",
    )
    viewer = strawberry.field(
        resolver=viewer_fields.viewer,
        graphql_type=Viewer | None,
        description="The user of the token. Null without a token.",
    )
