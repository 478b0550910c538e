"""`Game.livePlayers`, what is derived from it, and the subscription to its changes."""

from __future__ import annotations

from asyncio import Future
from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import Annotated, NamedTuple, cast

import strawberry

from graph.social_graph import Game
from loaders.live_players import LiveCount, live_count
from resolvers import labels
from resolvers.context import Info
from resolvers.event import Event
from resolvers.game_signals import watched_games


class GameLiveCount(NamedTuple):
    """A game's live count as the subscription sends it; None where it is unknown just now."""

    game_id: int
    live_players: int | None
    live_people: int | None
    as_of: float | None


def sessions(root: Game, info: Info) -> Future[LiveCount]:
    """Live sessions of the game: the loader's own future, as with friend counts."""
    return cast("Future[LiveCount]", info.context.loaders.live_players.load(root.number))


async def as_of(root: Game, info: Info) -> float:
    """When the sessions were counted."""
    return (await sessions(root, info)).as_of


async def people(root: Game, info: Info) -> int:
    """Distinct users among the live sessions, of the same recount."""
    return (await sessions(root, info)).people


def unique_players(root: Game, info: Info) -> Future[int]:
    """Distinct players of the game on the UTC day."""
    return cast("Future[int]", info.context.loaders.unique_players.load(root.number))


async def label(root: Game, info: Info) -> str:
    """The live sessions as text."""
    return labels.rounded(await sessions(root, info))


async def live_players(
    info: Info,
    game_ids: Annotated[
        list[strawberry.ID], strawberry.argument(description="Ids of the games to watch, 1 to 100. All must exist.")
    ],
) -> AsyncIterator[Event]:
    """A snapshot of all games at once, then the games whose count changed, at most once a recount."""
    totals = info.context.services.live_totals
    numbers = watched_games(info, game_ids, "gameIds")
    async with totals.subscribe(numbers) as changes:
        yield Event(partial(_counts, info, numbers, numbers), ("livePlayers", totals.as_of, None))
        async for changed in changes:
            yield Event(partial(_counts, info, numbers, changed), ("livePlayers", totals.as_of, changed))


def _counts(info: Info, numbers: dict[int, int], changed: Collection[int]) -> list[GameLiveCount]:
    return [_count(info, number, id_) for number, id_ in numbers.items() if number in changed]


def _count(info: Info, number: int, game_id: int) -> GameLiveCount:
    found = live_count(info.context.services.live_totals, number)
    if found is None:
        return GameLiveCount(game_id, None, None, None)
    return GameLiveCount(game_id, found, found.people, found.as_of)
