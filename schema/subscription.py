"""`Subscription`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import strawberry

from resolvers import live as live_signals
from resolvers.game_signals import game_signals
from schema.game import Game
from schema.scalars import DateTime


@strawberry.type(description="The live count of one game.")
class LiveCount:
    game_id: strawberry.ID = strawberry.field(description="The game's id.")
    live_players: int | None = strawberry.field(description="Live sessions in the game; null while unknown.")
    live_people: int | None = strawberry.field(description="Distinct users among those sessions; null while unknown.")
    as_of: DateTime | None = strawberry.field(description="When they were counted; null while unknown.")


@strawberry.type(description="What can be watched.")
class Subscription:
    live_players = strawberry.subscription(
        resolver=live_signals.live_players,
        graphql_type=AsyncIterator[list[LiveCount]],
        description="Live counts of games: a snapshot of all of them at once, then the games whose count changed, at "
        "most one event a recount (a second). A client that reads slowly gets the latest counts and skips the rest.",
    )
    game_signals = strawberry.subscription(
        resolver=game_signals,
        graphql_type=AsyncIterator[list[Game]],
        description="A page that moves: a snapshot of all games at once, then the games whose live counts or (with a "
        "token) whose viewer's friend counts changed, at most one event a recount (a second). Ask for the same fields "
        "as in `games`. A friend's play is told within two seconds. A client that reads slowly gets the latest numbers "
        "and skips the rest.",
    )
