"""A schema that can do all that an edge has to cope with, over a store that counts how often it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import strawberry

from graph.query_count import count_query
from graph.social_graph import TruthUnavailableError, UnknownGameError, UserDeletedError
from resolvers.errors import NotFound, Unauthenticated, Unavailable
from resolvers.identifiers import parse_id, parse_ids
from server.tokens import Principal
from signals.redis import round_trips

#: What cannot run in any transport that streams, and what the caller is told.
CANNOT_RUN: list[tuple[str, dict[str, Any]]] = [
    ("{ broken", {"code": "GRAPHQL_PARSE_FAILED"}),
    ("{ nothing }", {"code": "GRAPHQL_VALIDATION_FAILED"}),
    ("subscription { watched(ids: []) }", {"code": "BAD_INPUT", "argument": "ids"}),
    ("subscription($ids: [ID!]!) { watched(ids: $ids) }", {"code": "BAD_INPUT", "argument": "ids"}),
    ("query A { first } query B { first }", {"code": "BAD_INPUT", "argument": "operationName"}),
    (
        "{" + " ".join(f"a{n}: first" for n in range(99)) + "}",
        {"code": "LIMIT_EXCEEDED", "limit": 60, "actual": 61},
    ),
]


@dataclass
class Store:
    """Counts what it is asked, and who is subscribed."""

    asked: int = 0
    subscribers: int = 0
    contexts: list[Context] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self) -> None:
        self.asked += 1
        count_query()
        if (trips := round_trips.get()) is not None:
            trips.count += 1


@dataclass(eq=False)
class Context:
    store: Store
    principal: Principal | None
    request_id: str

    @property
    def viewer_id(self) -> int | None:
        return None if self.principal is None else self.principal.user_id


Info: TypeAlias = strawberry.Info[Context, None]


@strawberry.type
class Game:
    id: strawberry.ID
    name: str

    @strawberry.field
    def friends_played(self) -> int | None:
        raise Unavailable("friendsPlayed")

    @strawberry.field
    def live_players(self) -> int | None:
        return 7

    @strawberry.field
    def twin(self) -> Game:
        return self


@strawberry.input
class GameInput:
    id: strawberry.ID
    name: str


@strawberry.type
class Query:
    @strawberry.field
    def games(self, info: Info, ids: list[strawberry.ID]) -> list[Game | None]:
        numbers = parse_ids(ids, "ids")
        info.context.store.ask()
        return [
            Game(id=strawberry.ID(str(number)), name=f"Game {number}")
            if number < 1000
            else NotFound("ids", f"no game has the id {number}")  # type: ignore[misc]  # graphql-core raises it there
            for number in numbers
        ]

    @strawberry.field
    async def game(self, info: Info, id: strawberry.ID) -> Game | None:  # noqa: A002  # GraphQL's name
        number = parse_id(id, "id")
        info.context.store.ask()
        if number >= 1000:
            raise UnknownGameError(number)
        return Game(id=id, name=f"Game {number}")

    @strawberry.field
    def viewer(self, info: Info) -> strawberry.ID | None:
        viewer_id = info.context.viewer_id
        return None if viewer_id is None else strawberry.ID(str(viewer_id))

    @strawberry.field
    def first(self, first: int = 30) -> int:
        return first

    @strawberry.field
    def fault(self, text: str = "secret detail") -> int | None:
        raise RuntimeError(text)

    @strawberry.field
    def truth(self) -> int | None:
        raise TruthUnavailableError("disk on fire at /srv")

    @strawberry.field
    def deleted(self, id: strawberry.ID) -> int | None:  # noqa: A002  # GraphQL's name
        raise UserDeletedError(int(id))

    @strawberry.field
    def too_big(self) -> int:
        return 2**40


@strawberry.type
class Mutation:
    @strawberry.mutation
    def record_play(self, info: Info, game_id: strawberry.ID) -> bool:
        if info.context.viewer_id is None:
            raise Unauthenticated
        parse_id(game_id, "gameId")
        info.context.store.ask()
        return True

    @strawberry.mutation
    def save_games(self, games: list[GameInput]) -> int:
        return len(games)


@strawberry.type
class Subscription:
    @strawberry.subscription
    async def count(self, to: int) -> AsyncIterator[int]:
        for number in range(1, to + 1):
            yield number

    @strawberry.subscription
    async def waiting(self, info: Info) -> AsyncIterator[Game]:
        """One event, then nothing until the store's gate opens, then one more."""
        store = info.context.store
        store.subscribers += 1
        try:
            yield Game(id=strawberry.ID("1"), name="before")
            await store.gate.wait()
            yield Game(id=strawberry.ID("1"), name="after")
        finally:
            store.subscribers -= 1

    @strawberry.subscription
    async def each_context(self, info: Info, times: int) -> AsyncIterator[ContextSeen]:
        info.context.store.contexts.append(info.context)
        for _ in range(times):
            yield ContextSeen()

    @strawberry.subscription
    async def watched(self, ids: list[strawberry.ID]) -> AsyncIterator[int]:
        yield len(parse_ids(ids, "ids"))

    @strawberry.subscription
    async def faulty(self) -> AsyncIterator[int]:
        yield 1
        raise RuntimeError("secret detail")


@strawberry.type
class ContextSeen:
    @strawberry.field
    def request_id(self, info: Info) -> str:
        info.context.store.contexts.append(info.context)
        return info.context.request_id


def small_schema() -> strawberry.Schema:
    return strawberry.Schema(Query, Mutation, Subscription)
