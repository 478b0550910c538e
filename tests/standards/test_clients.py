"""npm's graphql-ws and graphql-sse as clients: what they are told, and that they come back."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from server.limits import Limits
from tests.app.test_live import beat
from tests.app.world import World
from tests.served import Serve, Served
from tests.server.conftest import Edge, MakeEdge
from tests.standards.node import Run, script
from tests.waiting import until

SIGNALS = "subscription($ids: [ID!]!) { gameSignals(ids: $ids) { id livePlayers friendsPlayed } }"
WAITING = "subscription { waiting { name } }"
TRANSPORTS = pytest.mark.parametrize("transport", ["ws", "sse"])
BEFORE = {"next": {"data": {"waiting": {"name": "before"}}}}
AFTER = {"next": {"data": {"waiting": {"name": "after"}}}}


def client(
    transport: str, served: Served, query: str, variables: Any = None, **rest: Any
) -> AbstractAsyncContextManager[Run]:
    url = served.url("ws" if transport == "ws" else "http")
    asked = {"transport": transport, "url": url, "query": query, "variables": variables, **rest}
    return script("client.mjs", json.dumps(asked))


def token(edge: Edge, **options: Any) -> str:
    return edge.bearer(7, **options)["Authorization"].removeprefix("Bearer ")


@TRANSPORTS
async def test_a_page_moves(headcount: World, serve: Serve, transport: str) -> None:
    await headcount.games(2)
    await headcount.befriend(1, 2)
    await headcount.resident(1)
    served = await serve(headcount.application.asgi())
    tokens = [headcount.tokens.sign(1, [], 600)]
    async with client(transport, served, SIGNALS, {"ids": ["2", "1"]}, tokens=tokens) as run:
        snapshot = [{"id": id_, "livePlayers": 0, "friendsPlayed": 0} for id_ in ("2", "1")]
        assert await run.hear() == {"next": {"data": {"gameSignals": snapshot}}}
        await headcount.play(2, 1)
        one = {"id": "1", "livePlayers": 0, "friendsPlayed": 1}
        assert await run.hear() == {"next": {"data": {"gameSignals": [one]}}}
        await beat(headcount, 9, "s", 1)
        assert await run.hear() == {"next": {"data": {"gameSignals": [{**one, "livePlayers": 1}]}}}
    await until(lambda: headcount.application.watched_pages.subscribers == 0)


@TRANSPORTS
async def test_what_is_answered_once_completes(edge: Edge, serve: Serve, transport: str) -> None:
    served = await serve(edge.app)
    async with client(transport, served, 'mutation { recordPlay(gameId: "1") }', tokens=[token(edge)]) as run:
        heard = await run.rest()
    assert [said for said in heard if "closed" not in said] == [
        {"next": {"data": {"recordPlay": True}}},
        {"complete": True},
    ]


@TRANSPORTS
async def test_what_is_refused_is_told(edge: Edge, serve: Serve, transport: str) -> None:
    served = await serve(edge.app)
    async with client(transport, served, "subscription { watched(ids: []) }") as run:
        first, *_ = await run.rest()
    errors = first["error"] if transport == "ws" else first["next"]["errors"]
    assert [error["extensions"] for error in errors] == [{"code": "BAD_INPUT", "argument": "ids"}]


@TRANSPORTS
async def test_a_client_whose_token_has_expired_or_runs_out_comes_back_with_a_fresh_one(
    edge: Edge, serve: Serve, transport: str
) -> None:
    served = await serve(edge.app)
    expired, short = token(edge, seconds=10), token(edge, seconds=100)
    edge.clock.now += 129.0  # a second before the end of the leeway of the second one
    async with client(transport, served, WAITING, tokens=[expired, short, token(edge)]) as run:
        heard = [await run.hear()]
        while heard.count(BEFORE) < 2:
            heard.append(await run.hear())
    assert heard == ([{"closed": 4403}, BEFORE] * 2 if transport == "ws" else [BEFORE] * 2)


@TRANSPORTS
async def test_a_client_that_is_told_of_a_restart_comes_back(edge: Edge, serve: Serve, transport: str) -> None:
    served = await serve(edge.app)
    async with client(transport, served, WAITING) as run:
        assert await run.hear() == BEFORE
        await edge.app.drain(0.01)
        edge.app.streams.draining = False  # the same process serves again
        if transport == "ws":
            assert await run.hear() == {"closed": 1012}
        assert await run.hear() == BEFORE
        await until(lambda: edge.store.subscribers == 1)
        edge.store.gate.set()
        assert await run.hear() == AFTER
        assert {"complete": True} in await run.rest()


async def test_a_client_s_pings_are_answered(edge: Edge, serve: Serve) -> None:
    served = await serve(edge.app)
    async with client("ws", served, WAITING, options={"keepAlive": 10}) as run:
        heard = [await run.hear() for _ in range(4)]
    assert BEFORE in heard
    assert {"pong": True} in heard


async def test_comments_do_not_confuse_an_event_stream_s_client(make_edge: MakeEdge, serve: Serve) -> None:
    edge = make_edge(Limits(keep_alive_seconds=0.01))
    served = await serve(edge.app)
    async with client("sse", served, WAITING) as run:
        assert await run.hear() == BEFORE
        (stream,) = edge.app.streams.open
        first = stream._comment
        await until(lambda: stream._comment is not first)
        edge.store.gate.set()
        assert await run.rest() == [AFTER, {"complete": True}]


async def test_a_user_s_twenty_first_socket_gives_up_and_says_why(make_edge: MakeEdge, serve: Serve) -> None:
    edge = make_edge(Limits(connections_a_user=1))
    served = await serve(edge.app)
    with edge.app.connections.one_more(7):
        async with client("ws", served, WAITING, tokens=[token(edge)]) as run:
            assert (await run.rest())[0] == {"closed": 4429}
