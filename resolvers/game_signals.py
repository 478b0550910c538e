"""`gameSignals`: a page whose numbers move."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from typing import Annotated

import strawberry
from strawberry.types.nodes import SelectedField, Selection

from graph.social_graph import Game
from resolvers.context import Info
from resolvers.errors import NotFound
from resolvers.event import Event
from resolvers.identifiers import parse_ids


def watched_games(info: Info, ids: Sequence[str], argument: str) -> dict[int, int]:
    """The numbers of the games to watch with their ids, in the order asked, each once.

    Raises:
        NotFound: some of them do not exist.
    """
    by_id = info.context.services.catalogue.game
    games = {id_: by_id(id_) for id_ in dict.fromkeys(parse_ids(ids, argument))}
    if unknown := [id_ for id_, game in games.items() if game is None]:
        raise NotFound(argument, f"no game has the id {', '.join(map(str, unknown))}")
    return {game.number: game.id for game in games.values() if game is not None}


async def game_signals(
    info: Info,
    ids: Annotated[
        list[strawberry.ID], strawberry.argument(description="Ids of the games to watch, 1 to 100. All must exist.")
    ],
) -> AsyncIterator[Event]:
    """A snapshot of all games at once, then those whose signals changed, at most once a recount."""
    services, viewer_id = info.context.services, info.context.viewer_id
    numbers = watched_games(info, ids, "ids")
    players = _asks_for(info.selected_fields, "uniquePlayersToday")
    if viewer_id is None:
        async with services.live_totals.subscribe(numbers, players=players) as changes:
            yield Event(partial(_games, info, numbers, numbers), ("gameSignals", services.live_totals.as_of, None))
            async for changed in changes:
                share = ("gameSignals", services.live_totals.as_of, changed)
                yield Event(partial(_games, info, numbers, changed), share)
    else:
        async with services.watched_pages.watch(viewer_id, numbers, players=players) as watch:
            yield Event(partial(_games, info, numbers, numbers), friend_pages=watch)
            async for changed in watch:
                yield Event(partial(_games, info, numbers, changed), friend_pages=watch)


def _asks_for(selections: Sequence[Selection], name: str) -> bool:
    """Whether a field of this name is asked for, at any depth and by whatever fragment."""
    return any(
        (isinstance(selection, SelectedField) and selection.name == name) or _asks_for(selection.selections, name)
        for selection in selections
    )


def _games(info: Info, numbers: dict[int, int], changed: Collection[int]) -> list[Game]:
    """The games that changed, as the catalogue has them now, in the order asked."""
    found = (info.context.services.catalogue.game(id_) for number, id_ in numbers.items() if number in changed)
    return [game for game in found if game is not None]
