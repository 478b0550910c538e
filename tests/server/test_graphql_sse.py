"""Event streams, read word by word off a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from server.limits import Limits
from server.operations import Answer
from tests.served import Serve, Served
from tests.server.conftest import Edge, MakeEdge, only_error
from tests.server.small_schema import CANNOT_RUN
from tests.waiting import until

EVENTS = {"Accept": "text/event-stream"}
WAITING = "subscription { waiting { name } }"


class Stream:
    """A client that takes an event stream apart."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.comments: list[str] = []
        self._lines = response.aiter_lines()

    async def event(self) -> tuple[str, Any]:
        """The next event: its name and its data."""
        name = ""
        data: list[str] = []
        async with asyncio.timeout(10):
            async for line in self._lines:
                field, _, value = line.partition(":")
                if not line:
                    if name:
                        return name, json.loads("".join(data) or "null")
                elif not field:
                    self.comments.append(value.strip())
                elif field == "event":
                    name = value.strip()
                else:
                    assert field == "data"
                    data.append(value.strip())
        return "end", None

    async def rest(self) -> list[tuple[str, Any]]:
        """All that comes until the stream ends."""
        events = []
        while (event := await self.event())[0] != "end":
            events.append(event)
        return events


@asynccontextmanager
async def streamed(
    served: Served, query: str, headers: dict[str, str] | None = None, **rest: Any
) -> AsyncIterator[Stream]:
    async with (
        httpx.AsyncClient(timeout=20) as client,
        client.stream(
            "POST", served.url("http"), json={"query": query, **rest}, headers={**EVENTS, **(headers or {})}
        ) as response,
    ):
        yield Stream(response)


@pytest.fixture
async def served(edge: Edge, serve: Serve) -> Served:
    return await serve(edge.app)


async def test_a_subscription_gives_its_events_and_completes(served: Served) -> None:
    query = "subscription Count($to: Int!) { count(to: $to) }"
    async with streamed(served, query, variables={"to": 2}, operationName="Count") as stream:
        assert stream.response.status_code == 200
        assert await stream.rest() == [
            ("next", {"data": {"count": 1}}),
            ("next", {"data": {"count": 2}}),
            ("complete", None),
        ]


async def test_the_headers_keep_proxies_from_buffering(served: Served) -> None:
    async with streamed(served, "{ first }", {"X-Request-Id": "mine"}) as stream:
        headers = stream.response.headers
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["cache-control"] == "no-cache, no-transform"
        assert headers["x-accel-buffering"] == "no"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-request-id"] == "mine"
        assert "content-length" not in headers


async def test_queries_and_mutations_run_too(edge: Edge) -> None:
    headers = {**EVENTS, **edge.bearer(7)}
    for query, data in (
        ("{ viewer }", '{"viewer":"7"}'),
        ('mutation { recordPlay(gameId: "1") }', '{"recordPlay":true}'),
    ):
        response = await edge.post(query, headers=headers)
        expected = f':\nevent: next\ndata: {{"data":{data}}}\n\nevent: complete\ndata: \n\n'
        assert (response.status_code, response.text) == (200, expected)


@pytest.mark.parametrize(("query", "extensions"), CANNOT_RUN)
async def test_what_cannot_run_is_told_by_an_event(served: Served, query: str, extensions: dict[str, Any]) -> None:
    async with streamed(served, query) as stream:
        assert stream.response.status_code == 200
        (name, data), last = await stream.rest()
        assert (name, last) == ("next", ("complete", None))
        assert "data" not in data
        assert [error["extensions"] for error in data["errors"]] == [extensions]


async def test_a_fault_in_the_middle_is_masked_and_ends_the_stream(served: Served, lines: list[dict[str, Any]]) -> None:
    async with streamed(served, "subscription { faulty }", {"X-Request-Id": "sse"}) as stream:
        masked = {"message": "Internal error", "extensions": {"code": "INTERNAL", "requestId": "sse"}}
        assert await stream.rest() == [
            ("next", {"data": {"faulty": 1}}),
            ("next", {"errors": [masked]}),
            ("complete", None),
        ]
    assert [line["request_id"] for line in lines if line["log_level"] == "error"] == ["sse"]


@pytest.mark.parametrize(
    ("headers", "content", "status", "code"),
    [
        ({"Authorization": "Bearer nonsense"}, b'{"query": "{ first }"}', 401, "UNAUTHENTICATED"),
        ({"Content-Type": "text/plain"}, b'{"query": "{ first }"}', 415, "BAD_INPUT"),
        ({}, b"{", 400, "BAD_INPUT"),
        ({}, b'{"query": 7}', 400, "BAD_INPUT"),
        ({}, b" " * 65_537, 413, "LIMIT_EXCEEDED"),
    ],
)
async def test_what_is_no_graphql_request_is_refused_by_its_status_in_json(
    edge: Edge, headers: dict[str, str], content: bytes, status: int, code: str
) -> None:
    headers = {"Content-Type": "application/json", **EVENTS, **headers}
    response = await edge.client.post("/graphql", content=content, headers=headers)
    assert response.status_code == status
    assert response.headers["content-type"].startswith("application/json")
    assert only_error(response)["extensions"]["code"] == code


@pytest.mark.parametrize(
    ("accept", "of_a_query", "of_a_subscription"),
    [
        ("text/event-stream", "text/event-stream", "text/event-stream"),
        ("text/event-stream, application/json", "text/event-stream", "text/event-stream"),
        # As urql asks: for what comes in one piece it likes JSON better.
        (
            "application/graphql-response+json, application/json, text/event-stream, multipart/mixed",
            "application/graphql-response+json",
            "text/event-stream",
        ),
        ("application/json;q=0.9, text/event-stream;q=0.1", "application/json", "text/event-stream"),
        ("*/*", "application/json", "application/json"),
        ("application/json, text/event-stream;q=0", "application/json", "application/json"),
        ("text/html", "application/json", "application/json"),
    ],
)
async def test_the_accept_header_decides(edge: Edge, accept: str, of_a_query: str, of_a_subscription: str) -> None:
    for query, expected in (("{ first }", of_a_query), ("subscription { count(to: 1) }", of_a_subscription)):
        response = await edge.post(query, headers={"Accept": accept})
        assert response.headers["content-type"].split(";")[0] == expected
        if accept == "text/html":
            assert response.status_code == 406
        elif query.startswith("subscription") and expected != "text/event-stream":
            assert "Accept: text/event-stream" in only_error(response)["message"]


async def test_a_query_by_get_is_no_stream(edge: Edge) -> None:
    response = await edge.client.get("/graphql", params={"query": "{ first }"}, headers=EVENTS)
    assert response.status_code == 405


async def test_answers_say_what_the_operation_took_where_they_are_asked_to(edge: Edge) -> None:
    response = await edge.post('{ games(ids: ["1"]) { id } }', headers={**EVENTS, "X-Headcount-Cost": "1"})
    data = json.loads(response.text.split("data: ")[1].split("\n")[0])
    assert data["extensions"] == {"cost": {"redisRoundTrips": 1, "graphQueries": 1}}


async def test_pages_of_other_origins_read_it_where_they_are_listed(make_edge: MakeEdge) -> None:
    edge = make_edge(allowed_origins=["https://play.example"])
    for origin, allowed in (("https://play.example", "https://play.example"), ("https://evil.example", None)):
        response = await edge.post("{ first }", headers={**EVENTS, "Origin": origin})
        assert response.headers.get("access-control-allow-origin") == allowed


# How it ends


async def test_a_client_that_goes_away_ends_its_subscription_at_once(served: Served, edge: Edge) -> None:
    async with streamed(served, WAITING) as stream:
        await stream.event()
        assert (edge.store.subscribers, len(edge.app.streams.open)) == (1, 1)
    await until(lambda: (edge.store.subscribers, len(edge.app.streams.open)) == (0, 0))
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not {name for name in names if name.startswith("sse")}


async def test_a_token_that_expires_meanwhile_ends_the_stream_without_complete(served: Served, edge: Edge) -> None:
    headers = edge.bearer(7, seconds=100)
    edge.clock.now += 129.9  # a tenth of a second before the end of the leeway
    async with streamed(served, WAITING, headers) as stream:
        assert await stream.rest() == [("next", {"data": {"waiting": {"name": "before"}}})]
        assert "The token has expired." in stream.comments
    await until(lambda: edge.store.subscribers == 0)
    async with streamed(served, WAITING, headers) as stream:
        assert stream.response.status_code in {200, 401}  # the leeway may not be over to the tenth


async def test_a_user_who_is_deleted_meanwhile_has_their_streams_ended(served: Served, edge: Edge) -> None:
    deleted: set[int] = set()
    edge.tokens.refuse_users(deleted)
    async with streamed(served, WAITING, edge.bearer(7)) as theirs, streamed(served, WAITING, edge.bearer(8)) as others:
        await theirs.event()
        await others.event()
        deleted.add(7)
        edge.app.close_deleted()
        assert await theirs.event() == ("end", None)
        edge.store.gate.set()
        assert await others.event() == ("next", {"data": {"waiting": {"name": "after"}}})


async def test_silence_is_broken_by_comments(make_edge: MakeEdge, serve: Serve) -> None:
    edge = make_edge(Limits(keep_alive_seconds=0.01))
    served = await serve(edge.app)
    async with streamed(served, WAITING) as stream:
        await stream.event()
        lines = stream._lines
        async with asyncio.timeout(10):
            assert [await anext(lines) for _ in range(3)] == [":"] * 3
        edge.store.gate.set()
        assert await stream.rest() == [("next", {"data": {"waiting": {"name": "after"}}}), ("complete", None)]


async def test_a_drain_lets_replies_out_and_ends_subscriptions_without_complete(
    served: Served, edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer, run = asyncio.Event(), asyncio.Event(), edge.app.operations.run

    async def slow_run(ask: Any) -> Answer:
        asked.set()
        await answer.wait()
        return await run(ask)

    monkeypatch.setattr(edge.app.operations, "run", slow_run)
    async with streamed(served, WAITING) as subscription, streamed(served, "{ first }") as query:
        await subscription.event()
        await asked.wait()
        draining = asyncio.create_task(edge.app.drain(0.01))
        assert await subscription.rest() == []
        assert "The server restarts." in subscription.comments
        answer.set()
        assert await query.rest() == [("next", {"data": {"first": 30}}), ("complete", None)]
        await draining
    assert not edge.app.streams.open
    async with streamed(served, WAITING) as late:  # on a connection that was kept
        assert [name for name, _ in await late.rest()] == ["next"]


async def test_the_twenty_first_connection_of_a_user_is_refused_with_429(make_edge: MakeEdge, serve: Serve) -> None:
    edge = make_edge(Limits(connections_a_user=2))
    served = await serve(edge.app)
    theirs, others = edge.bearer(7), edge.bearer(8)
    async with streamed(served, WAITING, theirs) as first, streamed(served, WAITING, theirs) as second:
        await first.event()
        await second.event()
        async with streamed(served, WAITING, theirs) as third:
            await third.response.aread()
            assert third.response.status_code == 429
            assert third.response.headers["retry-after"] == "5"
            expected = {"code": "LIMIT_EXCEEDED", "limit": 2, "actual": 3}
            assert only_error(third.response)["extensions"] == expected
        for headers in (others, {}):
            async with streamed(served, "{ first }", headers) as another:
                assert another.response.status_code == 200
    await until(lambda: edge.app.connections.users == 0)
    async with streamed(served, WAITING, theirs) as again:
        assert (await again.event())[0] == "next"


async def test_who_reads_nothing_is_given_up_and_holds_nobody_up(
    served: Served, edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.write_deadline.UNREAD_SECONDS", 0.1)
    body = json.dumps({"query": "subscription { count(to: 10000000) }"}).encode()
    head = b"POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
    writer.write(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))  # and it reads nothing
    await until(lambda: len(edge.app.streams.open) == 1)
    async with streamed(served, "subscription { count(to: 3) }") as quick:
        assert len(await quick.rest()) == 4
    await until(lambda: not edge.app.streams.open)
    writer.transport.abort()
    del reader
