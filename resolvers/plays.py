"""`recordPlay`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import strawberry

from graph.social_graph import Game
from resolvers.catalog import require_game
from resolvers.context import Info
from resolvers.identifiers import parse_id
from resolvers.truth import truth_errors


class RecordPlayed(NamedTuple):
    """A play that is kept."""

    recorded: bool
    first: bool
    game: Game


async def record_play(
    info: Info, game_id: Annotated[strawberry.ID, strawberry.argument(description="Id of the game that was played.")]
) -> RecordPlayed:
    """Append the game to the viewer's play log unless it is there."""
    viewer_id = info.context.require_viewer()
    game = await require_game(info, parse_id(game_id, "gameId"), "gameId")
    with truth_errors():
        play = await info.context.services.graph.record_play(viewer_id, game.id)
    return RecordPlayed(recorded=True, first=play.first, game=game)
