"""Live counts through the API and over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.app.world import World, world
from tests.served import Serve
from tests.waiting import until

HEARTBEAT = """mutation($s: ID!, $g: ID!) {
    heartbeat(sessionId: $s, gameId: $g) { live expiresAt nextHeartbeatInSeconds game { id } }
}"""
SUBSCRIBE = "subscription($g: [ID!]!) { livePlayers(gameIds: $g) { gameId livePlayers livePeople asOf } }"


async def beat(headcount: World, user: int, session: str, game: int) -> dict[str, Any]:
    """A heartbeat."""
    data = await headcount.ask(HEARTBEAT, {"s": session, "g": str(game)}, user=user)
    answer: dict[str, Any] = data["heartbeat"]
    return answer


async def end(headcount: World, user: int, session: str) -> bool:
    """The end of a session."""
    data = await headcount.ask("mutation($s: ID!) { endSession(sessionId: $s) { ended } }", {"s": session}, user=user)
    ended: bool = data["endSession"]["ended"]
    return ended


async def shows(headcount: World, **counts: int) -> None:
    """Wait until a page shows these live counts of games g1, g2 …"""

    async def shown() -> bool:
        data = await headcount.ask('{ games(ids: ["1", "2", "3"]) { id livePlayers } }')
        found = {f"g{game['id']}": game["livePlayers"] for game in data["games"]}
        return all(found[game] == count for game, count in counts.items())

    await until(shown)


async def test_sessions_count_move_and_end(headcount: World) -> None:
    await headcount.games(3)
    answer = await beat(headcount, 1, "tab-1", 1)
    assert answer["live"]
    assert 18 <= answer["nextHeartbeatInSeconds"] <= 22
    await beat(headcount, 1, "tab-2", 1)
    await shows(headcount, g1=2, g2=0)
    await beat(headcount, 1, "tab-2", 2)  # moves, with no leave
    await shows(headcount, g1=1, g2=1)
    assert not await end(headcount, 2, "tab-1")  # another user's session of that name, which is none
    assert await end(headcount, 1, "tab-1")
    assert not await end(headcount, 1, "tab-1")
    await shows(headcount, g1=0, g2=1)
    late = await beat(headcount, 1, "tab-1", 1)
    assert (late["live"], late["expiresAt"]) == (False, None)
    await shows(headcount, g1=0, g2=1)
    assert not await end(headcount, 1, "never-seen")


async def test_sessions_without_heartbeats_go_by_themselves(tmp_path: Path, redis_url: str) -> None:
    async with world(tmp_path, redis_url, session_ttl_seconds=5) as headcount:
        await headcount.games(3)
        await asyncio.gather(*(beat(headcount, user, "s", 1 + user % 2) for user in range(1, 101)))
        await shows(headcount, g1=50, g2=50)
    # The server is gone with a hundred sessions live; the next one finds their sets, and no ghosts stay.
    async with world(tmp_path, redis_url, session_ttl_seconds=5) as headcount:
        await beat(headcount, 1000, "s", 3)
        await shows(headcount, g1=0, g2=0)


async def test_a_play_of_an_unknown_game_and_a_beat_in_one_are_not_found(headcount: World) -> None:
    await headcount.games(1)
    for query in (HEARTBEAT, "mutation($g: ID!) { recordPlay(gameId: $g) { first } }"):
        variables = {"s": "s", "g": "77"} if "$s" in query else {"g": "77"}
        body = await headcount.post(query, variables, user=1)
        assert [error["extensions"] for error in body["errors"]] == [{"code": "NOT_FOUND", "argument": "gameId"}]


@asynccontextmanager
async def subscription(url: str, games: list[str]) -> AsyncIterator[ClientConnection]:
    """A socket with one subscription on it."""
    async with connect(url, subprotocols=[Subprotocol("graphql-transport-ws")]) as socket:
        await socket.send(json.dumps({"type": "connection_init", "payload": {}}))
        assert json.loads(await socket.recv())["type"] == "connection_ack"
        payload = {"query": SUBSCRIBE, "variables": {"g": games}}
        await socket.send(json.dumps({"type": "subscribe", "id": "1", "payload": payload}))
        yield socket


async def event(socket: ClientConnection) -> list[tuple[str, int, int]]:
    """The next event of the subscription."""
    async with asyncio.timeout(20):
        message = json.loads(await socket.recv())
    assert message["type"] == "next", message
    counts = message["payload"]["data"]["livePlayers"]
    return [(count["gameId"], count["livePlayers"], count["livePeople"]) for count in counts]


async def test_a_subscription_gives_a_snapshot_then_only_what_changed(headcount: World, serve: Serve) -> None:
    await headcount.games(3)
    await beat(headcount, 1, "s", 1)
    await shows(headcount, g1=1)
    served = await serve(headcount.application.asgi())
    totals = headcount.application.live_totals
    async with subscription(served.url("ws"), ["1", "2"]) as socket:
        assert await event(socket) == [("1", 1, 1), ("2", 0, 0)]
        await beat(headcount, 2, "s", 3)  # not asked for
        await beat(headcount, 1, "s2", 2)
        assert await event(socket) == [("2", 1, 1)]
        assert await end(headcount, 1, "s2")
        assert await event(socket) == [("2", 0, 0)]
        assert totals.subscribers == 1
        # The socket dies without a word, as when a cable is cut: nothing is left of it.
        socket.transport.abort()
        await until(lambda: totals.subscribers == 0)


async def test_a_slow_subscriber_gets_the_latest_and_holds_nobody_up(headcount: World, serve: Serve) -> None:
    await headcount.games(1)
    served = await serve(headcount.application.asgi())
    async with subscription(served.url("ws"), ["1"]) as slow, subscription(served.url("ws"), ["1"]) as quick:
        assert await event(slow) == await event(quick) == [("1", 0, 0)]
        for user in range(1, 6):
            await beat(headcount, user, "s", 1)
            while (await event(quick))[0][1] != user:
                pass
        counts = [await event(slow)]
        while counts[-1] != [("1", 5, 5)]:
            counts.append(await event(slow))
        assert counts == sorted(counts)


async def test_a_subscription_to_an_unknown_game_names_it_and_starts_nothing(headcount: World, serve: Serve) -> None:
    await headcount.games(1)
    served = await serve(headcount.application.asgi())
    async with subscription(served.url("ws"), ["1", "55", "66"]) as socket:
        message = json.loads(await socket.recv())
    assert message["type"] == "error"
    assert message["payload"][0]["message"] == "no game has the id 55, 66"
    assert message["payload"][0]["extensions"] == {"code": "NOT_FOUND", "argument": "gameIds"}
    assert headcount.application.live_totals.subscribers == 0
