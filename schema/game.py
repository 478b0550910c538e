"""`Game`: the card of a browse page, with its two numbers."""

from __future__ import annotations

import strawberry

from resolvers import friends_played as friend_signals
from resolvers import live as live_signals
from schema.scalars import DateTime


@strawberry.type(description="A game of the catalogue, with the numbers that stand under it.")
class Game:
    id: strawberry.ID = strawberry.field(description="Decimal id, 1 to 2^63-1.")
    name: str = strawberry.field(description="Title of the game.")
    image_url: str | None = strawberry.field(description="Address of the game's picture; null where there is none.")

    friends_played = strawberry.field(
        resolver=friend_signals.count,
        graphql_type=int | None,
        description="How many of the viewer's friends have ever played the game, exactly. The viewer's own plays do "
        "not count. Null without a token; null with one `UNAVAILABLE` error a page while it is unknown. Never an "
        "estimate, and never 0 for unknown.",
    )
    friends_played_label = strawberry.field(
        resolver=friend_signals.label,
        graphql_type=str | None,
        description='`friendsPlayed` as text for a card: "12", or "50+" above the cap.',
    )
    friends_played_as_of = strawberry.field(
        resolver=friend_signals.as_of,
        graphql_type=DateTime | None,
        description="When `friendsPlayed` was true. Older than now only while a store is away (a minute at most).",
    )
    live_players = strawberry.field(
        resolver=live_signals.sessions,
        graphql_type=int | None,
        description="How many sessions are in the game now: those with a heartbeat younger than the session TTL "
        "(60 s unless set otherwise), counted once a second. Null with one `UNAVAILABLE` error a page while unknown.",
    )
    live_players_label = strawberry.field(
        resolver=live_signals.label,
        graphql_type=str | None,
        description='`livePlayers` as text for a card: exact below 1,000, else to the nearest hundred: "48,300".',
    )
    live_players_as_of = strawberry.field(
        resolver=live_signals.as_of,
        graphql_type=DateTime | None,
        description="When the live sessions and the people in them were counted.",
    )
    live_people = strawberry.field(
        resolver=live_signals.people,
        graphql_type=int | None,
        description="How many different users those live sessions belong to, counted at the same moment: two devices "
        "of one user are two players here and one person.",
    )
    unique_players_today = strawberry.field(
        resolver=live_signals.unique_players,
        graphql_type=int | None,
        description="How many different users were in the game since 00:00 UTC, with a standard error of 0.81 %. Who "
        "hides while they play is not among them. Null with one `UNAVAILABLE` error a page while unknown: after a "
        "loss, until the next midnight.",
    )
