"""The catalogue: `games`, `game`, `catalog` and `saveGames`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import islice
from typing import Annotated, Protocol

import strawberry

from graph.game_values import MAX_NAME_CHARACTERS, MAX_URL_CHARACTERS, is_http_address, is_storable
from graph.social_graph import Game, GameRow
from resolvers.context import Info
from resolvers.cursors import check_first, decode_cursor, encode_cursor
from resolvers.errors import BadInput, LimitExceeded, NotFound
from resolvers.identifiers import parse_id, parse_ids
from resolvers.pages import Edge, Page, page_of
from resolvers.truth import truth_errors

SCOPE = "catalog:write"
BY_LIVE_PLAYERS = "catalog by live players"
BY_NAME = "catalog by name"
MAX_SEARCH_CHARACTERS = 200
MAX_SAVED_GAMES = 100


@strawberry.enum(description="What comes first in the catalogue.")
class CatalogOrder(Enum):
    LIVE_PLAYERS = strawberry.enum_value(
        "LIVE_PLAYERS", description="Most live players first; games that nobody is in follow by ascending id."
    )
    NAME = strawberry.enum_value("NAME", description="By name in any case; equal names by ascending id.")


def games(
    info: Info,
    ids: Annotated[list[strawberry.ID], strawberry.argument(description="Ids of the page's games, 1 to 100.")],
) -> list[Game | NotFound]:
    """The games in the order asked; an unknown one is null, with an error at its path."""
    by_id = info.context.services.catalogue.game
    # An exception in a list is the error of its place (graphql-core), so the other games still come.
    return [by_id(id_) or NotFound("ids", f"no game has the id {id_}") for id_ in parse_ids(ids, "ids")]


async def game(
    info: Info,
    id: Annotated[strawberry.ID, strawberry.argument(description="The game's id.")],  # noqa: A002  # GraphQL's name
) -> Game:
    """One game."""
    return await require_game(info, parse_id(id, "id"), "id")


async def require_game(info: Info, game_id: int, argument: str) -> Game:
    """The game that an argument names. One saved by another process within the last seconds is looked up.

    Raises:
        NotFound: no game has this id.
    """
    catalogue = info.context.services.catalogue
    found = catalogue.game(game_id)
    if found is None:
        with truth_errors():
            await catalogue.refresh(info.context.services.graph)
        found = catalogue.game(game_id)
    if found is None:
        raise NotFound(argument, f"no game has the id {game_id}")
    return found


async def catalog(
    info: Info,
    first: Annotated[int, strawberry.argument(description="Length of the page, 1 to 100.")] = 30,
    after: Annotated[
        str | None,
        strawberry.argument(
            description="A cursor of this list: the page starts behind it. By LIVE_PLAYERS it pins the order for "
            "five minutes, so that pages neither repeat nor skip a game while the counts move."
        ),
    ] = None,
    search: Annotated[
        str | None, strawberry.argument(description="Only games whose name holds this text, in any case.")
    ] = None,
    order_by: Annotated[CatalogOrder, strawberry.argument(description="What comes first.")] = CatalogOrder.LIVE_PLAYERS,
) -> Page[Game]:
    """All games, in pages."""
    check_first(first)
    if search is not None and len(search) > MAX_SEARCH_CHARACTERS:
        raise LimitExceeded("search", limit=MAX_SEARCH_CHARACTERS, actual=len(search))
    wanted = (search or "").casefold()
    if order_by is CatalogOrder.NAME:
        return _page_by_name(info, first, after, wanted)
    return await _page_by_live_players(info, first, after, wanted)


def _page_by_name(info: Info, first: int, after: str | None, wanted: str) -> Page[Game]:
    games = info.context.services.catalogue.by_name
    start = 0
    if after is not None:
        name, game_id = decode_cursor(after, BY_NAME, str, int)
        start = info.context.services.catalog_orders.place_by_name(str(name), int(game_id))
    found = list(islice((row for row in islice(games, start, None) if wanted in row.name.casefold()), first + 1))
    edges = [Edge(encode_cursor(BY_NAME, row.name.casefold(), row.id), row) for row in found[:first]]
    return page_of(edges, total_count=_total(info, wanted), has_next=len(found) > first, has_previous=start > 0)


def _total(info: Info, wanted: str) -> int:
    catalogue = info.context.services.catalogue
    return len(catalogue.search(wanted)) if wanted else len(catalogue)


async def _page_by_live_players(info: Info, first: int, after: str | None, wanted: str) -> Page[Game]:
    orders = info.context.services.catalog_orders
    if after is None:
        order, start = orders.by_live_players(), 0
    else:
        order_id, place, game_id = decode_cursor(after, BY_LIVE_PLAYERS, str, int, int)
        pinned = await orders.pinned(str(order_id))
        if pinned is not None:
            order, start = pinned, int(place)
        else:  # older than five minutes: go on behind the same game in the order of now
            order = orders.by_live_players()
            start = next((i + 1 for i, row in enumerate(order.games) if row.id == int(game_id)), 0)
    # The row of the pinned order may be older than a rename: what is shown is the catalogue's.
    catalogue = info.context.services.catalogue
    found: list[tuple[int, Game]] = []
    for place in range(start, len(order.games)):
        row = catalogue.game(order.games[place].id)
        if row is not None and wanted in row.name.casefold():
            found.append((place + 1, row))
            if len(found) > first:
                break
    edges = [Edge(encode_cursor(BY_LIVE_PLAYERS, order.id, place, row.id), row) for place, row in found[:first]]
    return page_of(edges, total_count=_total(info, wanted), has_next=len(found) > first, has_previous=start > 0)


class GameToSave(Protocol):
    """A game of the input list of `saveGames`."""

    id: strawberry.ID
    name: str
    image_url: str | None


async def save_games(info: Info, games: Sequence[GameToSave]) -> list[Game]:
    """Create or rename games."""
    info.context.require_scope(SCOPE)
    if not games:
        raise BadInput("games", f"must hold 1 to {MAX_SAVED_GAMES} games")
    if len(games) > MAX_SAVED_GAMES:
        raise LimitExceeded("games", limit=MAX_SAVED_GAMES, actual=len(games))
    rows = [_game_row(given) for given in games]
    if len({row.id for row in rows}) < len(rows):
        raise BadInput("games", "must not name an id twice")
    services = info.context.services
    with truth_errors():
        saved = await services.graph.save_games(rows)
        await services.catalogue.refresh(services.graph)
    return saved


def _game_row(given: GameToSave) -> GameRow:
    name = given.name.strip()
    if not 1 <= len(name) <= MAX_NAME_CHARACTERS:
        raise BadInput("games.name", f"must be 1 to {MAX_NAME_CHARACTERS} characters")
    if not is_storable(name):
        raise BadInput("games.name", "must not have a NUL character in it")
    url = given.image_url
    if url is not None and not (len(url) <= MAX_URL_CHARACTERS and is_http_address(url)):
        raise BadInput("games.imageUrl", f"must be an http or https address of at most {MAX_URL_CHARACTERS} characters")
    return GameRow(parse_id(given.id, "games.id"), name, url)
