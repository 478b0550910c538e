"""`heartbeat` and `endSession`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import strawberry
import structlog
from redis.exceptions import RedisError

from graph.social_graph import Game
from resolvers.catalog import require_game
from resolvers.context import Info
from resolvers.errors import Unavailable
from resolvers.identifiers import parse_id, parse_session_id
from signals.live_sessions import next_heartbeat_in_seconds

log = structlog.get_logger(__name__)

SessionId = Annotated[
    strawberry.ID,
    strawberry.argument(
        description="The session's id, made by the game client once a launch: 1 to 64 of A-Z, a-z, 0-9, - and _. "
        "It means nothing outside the viewer."
    ),
]


class Heartbeat(NamedTuple):
    """A heartbeat that was counted, or one that came after its session was ended."""

    live: bool
    expires_at: float | None
    next_heartbeat_in_seconds: float
    game: Game


class EndedSession(NamedTuple):
    """Whether a live session was ended."""

    ended: bool


async def heartbeat(
    info: Info,
    session_id: SessionId,
    game_id: Annotated[strawberry.ID, strawberry.argument(description="Id of the game that the session is in now.")],
) -> Heartbeat:
    """Say that a session of the viewer is in a game now."""
    viewer_id = info.context.require_viewer()
    session = parse_session_id(session_id, "sessionId")
    game = await require_game(info, parse_id(game_id, "gameId"), "gameId")
    services = info.context.services
    try:
        beat = await services.live_sessions.beat(viewer_id, session, game.number)
    except (RedisError, OSError, TimeoutError) as error:
        log.warning("beat_not_taken", reason=str(error) or repr(error))
        raise Unavailable("livePlayers") from None
    return Heartbeat(
        live=beat.live,
        expires_at=beat.expires_at,
        next_heartbeat_in_seconds=next_heartbeat_in_seconds(services.session_ttl_seconds),
        game=game,
    )


async def end_session(info: Info, session_id: SessionId) -> EndedSession:
    """Say that a session of the viewer is over."""
    viewer_id = info.context.require_viewer()
    session = parse_session_id(session_id, "sessionId")
    try:
        return EndedSession(await info.context.services.live_sessions.end(viewer_id, session))
    except (RedisError, OSError, TimeoutError) as error:
        log.warning("end_not_taken", reason=str(error) or repr(error))
        raise Unavailable("livePlayers") from None
