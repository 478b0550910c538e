"""A page that moves: both of its numbers, over a real socket."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from server.request_tally import RequestTally
from server.site import graphql_app
from tests.app.test_live import beat, end
from tests.app.world import World, world
from tests.served import Serve
from tests.waiting import until

FIELDS = "id livePlayers friendsPlayed"
NONE_LEFT = {"watched": 0, "live": 0}


class Subscriber:
    """One subscription on a socket of its own."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def message(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            heard: dict[str, Any] = json.loads(await self.socket.recv())
        return heard

    async def event(self) -> list[tuple[Any, ...]]:
        """The games of the next event, as rows of what was asked."""
        message = await self.message()
        assert message["type"] == "next", message
        assert "errors" not in message["payload"], message
        return [tuple(game.values()) for game in message["payload"]["data"]["gameSignals"]]

    async def shows(self, **expected: tuple[Any, ...]) -> None:
        """Take events until these games (g1, g2 …) were told so."""
        told: dict[str, tuple[Any, ...]] = {}
        while any(told.get(game) != row for game, row in expected.items()):
            told |= {f"g{row[0]}": row[1:] for row in await self.event()}


@asynccontextmanager
async def watching(
    headcount: World, url: str, ids: list[str], *, user: int | None = None, fields: str = FIELDS
) -> AsyncIterator[Subscriber]:
    async with connect(url, subprotocols=[Subprotocol("graphql-transport-ws")]) as socket:
        payload = {} if user is None else {"Authorization": f"Bearer {headcount.tokens.sign(user, [], 600)}"}
        await socket.send(json.dumps({"type": "connection_init", "payload": payload}))
        assert json.loads(await socket.recv())["type"] == "connection_ack"
        query = f"subscription($ids: [ID!]!) {{ gameSignals(ids: $ids) {{ {fields} }} }}"
        subscribe = {"id": "1", "type": "subscribe", "payload": {"query": query, "variables": {"ids": ids}}}
        await socket.send(json.dumps(subscribe))
        yield Subscriber(socket)


def left(headcount: World) -> dict[str, int]:
    """What is held for subscribers."""
    application = headcount.application
    return {"watched": application.watched_pages.subscribers, "live": application.live_totals.subscribers}


async def test_a_friend_s_play_and_a_session_reach_the_page_and_nothing_else_does(
    headcount: World, serve: Serve
) -> None:
    await headcount.games(4)
    await headcount.befriend(1, 2)
    await headcount.play(2, 3)
    await headcount.resident(1)
    served = await serve(headcount.application.asgi())
    async with watching(headcount, served.url("ws"), ["3", "1", "3", "2"], user=1) as subscriber:
        assert await subscriber.event() == [("3", 0, 1), ("1", 0, 0), ("2", 0, 0)]
        began = time.monotonic()
        await headcount.play(2, 1)
        assert await subscriber.event() == [("1", 0, 1)]
        assert time.monotonic() - began < 2
        await headcount.play(1, 2)  # their own
        await headcount.play(9, 2)  # a stranger's
        await headcount.play(2, 4)  # not on the page
        await headcount.drained()
        await beat(headcount, 9, "s", 2)
        assert await subscriber.event() == [("2", 1, 0)]
        await headcount.part(1, 2)
        await subscriber.shows(g3=(0, 0), g1=(0, 0))
        assert left(headcount) == {"watched": 1, "live": 1}
        subscriber.socket.transport.abort()
        await until(lambda: left(headcount) == NONE_LEFT)


@pytest.mark.parametrize("user", [None, 1])
async def test_players_of_the_day_move_where_they_are_asked_for(
    headcount: World, serve: Serve, user: int | None
) -> None:
    await headcount.games(1)
    served = await serve(headcount.application.asgi())
    fields = "id ...Day } } fragment Day on Game { ... { uniquePlayersToday"
    async with watching(headcount, served.url("ws"), ["1"], user=user, fields=fields) as subscriber:
        await subscriber.shows(g1=(0,))
        await beat(headcount, 5, "s", 1)
        await subscriber.shows(g1=(1,))
        await beat(headcount, 6, "s", 1)
        await subscriber.shows(g1=(2,))


async def test_without_a_token_friend_fields_are_null_and_live_counts_move(headcount: World, serve: Serve) -> None:
    await headcount.games(2)
    served = await serve(headcount.application.asgi())
    async with watching(headcount, served.url("ws"), ["2", "1"], fields=f"{FIELDS} name") as subscriber:
        assert await subscriber.event() == [("2", 0, None, "Game 2"), ("1", 0, None, "Game 1")]
        await beat(headcount, 5, "s", 1)
        assert await subscriber.event() == [("1", 1, None, "Game 1")]
        assert await end(headcount, 5, "s")
        assert await subscriber.event() == [("1", 0, None, "Game 1")]
        assert left(headcount) == {"watched": 0, "live": 1}
    await until(lambda: left(headcount) == NONE_LEFT)


async def test_two_viewers_of_one_game_are_told_their_own_counts(headcount: World, serve: Serve) -> None:
    await headcount.games(1)
    for viewer, friend in ((1, 11), (2, 11), (2, 12)):
        await headcount.befriend(viewer, friend)
    await headcount.resident(1, 2)
    served = await serve(headcount.application.asgi())
    async with (
        watching(headcount, served.url("ws"), ["1"], user=1, fields="friendsPlayed") as first,
        watching(headcount, served.url("ws"), ["1"], user=2, fields="friendsPlayed") as second,
    ):
        assert (await first.event(), await second.event()) == ([(0,)], [(0,)])
        await headcount.play(12, 1)
        assert await second.event() == [(1,)]
        await headcount.play(11, 1)
        assert (await first.event(), await second.event()) == ([(1,)], [(2,)])


async def test_a_view_that_leaves_is_counted_from_the_truth_and_comes_back(headcount: World, serve: Serve) -> None:
    await headcount.games(1)
    await headcount.befriend(1, 2)
    await headcount.resident(1)
    views = headcount.application.views
    served = await serve(headcount.application.asgi())
    async with watching(headcount, served.url("ws"), ["1"], user=1, fields="id friendsPlayed") as subscriber:
        assert await subscriber.event() == [("1", 0)]
        await views.evict([1])
        await headcount.play(2, 1)
        assert await subscriber.event() == [("1", 1)]

        async def resident() -> bool:
            return (await views.token(1) or "").startswith("R")

        await until(resident)
        await headcount.part(1, 2)
        assert await subscriber.event() == [("1", 0)]


async def test_a_pulled_friend_s_play_reaches_the_page(tmp_path: Path, redis_url: str, serve: Serve) -> None:
    async with world(tmp_path, redis_url, fanout_max_friends=2) as headcount:
        await headcount.games(2)
        for friend in (1, 2, 3, 4):
            await headcount.befriend(50, friend)
        await headcount.drained()
        await headcount.resident(1)
        served = await serve(headcount.application.asgi())
        async with watching(headcount, served.url("ws"), ["1", "2"], user=1, fields="id friendsPlayed") as subscriber:
            assert await subscriber.event() == [("1", 0), ("2", 0)]
            await headcount.play(50, 2)
            assert await subscriber.event() == [("2", 1)]


async def test_who_asks_for_no_friend_counts_has_none_looked_up(headcount: World, serve: Serve) -> None:
    await headcount.games(1)
    served = await serve(headcount.application.asgi())
    watched = headcount.application.watched_pages
    async with watching(headcount, served.url("ws"), ["1"], user=1, fields="id livePlayers") as subscriber:
        assert await subscriber.event() == [("1", 0)]
        assert not watched._numbers(1)
        await beat(headcount, 5, "s", 1)
        assert await subscriber.event() == [("1", 1)]


async def test_subscribers_without_a_viewer_share_one_look_up(headcount: World, serve: Serve) -> None:
    await headcount.games(2)
    application = headcount.application
    graphql = graphql_app(application.services, headcount.tokens, application.settings, dev=False, tally=RequestTally())
    served = await serve(graphql)
    async with AsyncExitStack() as open_:
        subscribers = [
            await open_.enter_async_context(watching(headcount, served.url("ws"), ["1", "2"])) for _ in range(3)
        ]
        for subscriber in subscribers:
            await subscriber.event()
        made = graphql.operations._shared.made
        await beat(headcount, 5, "s", 2)
        for subscriber in subscribers:
            assert await subscriber.event() == [("2", 1, None)]
        assert graphql.operations._shared.made == made + 1


async def test_a_slow_subscriber_skips_to_the_latest(headcount: World, serve: Serve) -> None:
    await headcount.games(1)
    friends = range(2, 8)
    for friend in friends:
        await headcount.befriend(1, friend)
    await headcount.resident(1)
    served = await serve(headcount.application.asgi())
    async with watching(headcount, served.url("ws"), ["1"], user=1) as slow:
        async with watching(headcount, served.url("ws"), ["1"], user=1) as quick:
            assert await quick.event() == [("1", 0, 0)]
            for count, friend in enumerate(friends, start=1):
                await headcount.play(friend, 1)
                await quick.shows(g1=(0, count))
        counts = [(await slow.event())[0][2]]
        while counts[-1] != len(friends):
            counts.append((await slow.event())[0][2])
        assert counts == sorted(counts)


async def test_unknown_games_and_too_many_are_named_and_nothing_begins(headcount: World, serve: Serve) -> None:
    await headcount.games(1)
    served = await serve(headcount.application.asgi())
    for ids, extensions in (
        (["1", "55", "66"], {"code": "NOT_FOUND", "argument": "ids"}),
        ([str(number) for number in range(1, 102)], {"code": "LIMIT_EXCEEDED", "limit": 100, "actual": 101}),
        (["x"], {"code": "BAD_INPUT", "argument": "ids"}),
        ([], {"code": "BAD_INPUT", "argument": "ids"}),
    ):
        async with watching(headcount, served.url("ws"), ids, user=1) as subscriber:
            message = await subscriber.message()
        assert message["type"] == "error"
        assert [error["extensions"] for error in message["payload"]] == [extensions]
        if extensions["code"] == "NOT_FOUND":
            assert message["payload"][0]["message"] == "no game has the id 55, 66"
    assert left(headcount) == NONE_LEFT


async def test_a_server_that_stops_says_that_it_is_not_ready_and_sends_subscribers_away(
    headcount: World, serve: Serve
) -> None:
    await headcount.games(1)
    served = await serve(headcount.application.asgi())
    async with watching(headcount, served.url("ws"), ["1"], user=1) as subscriber:
        await subscriber.event()
        await headcount.application.drain(0.0)
        with pytest.raises(ConnectionClosed) as closed:
            await subscriber.message()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012
    async with httpx.AsyncClient() as client:
        assert (await client.get(served.url("http", "/readyz"))).status_code == 503
    await until(lambda: left(headcount) == NONE_LEFT)
