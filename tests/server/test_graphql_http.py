from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from server.limits import Limits
from tests.server.conftest import Edge, MakeEdge, only_error

GRAPHQL = "application/graphql-response+json"


async def test_a_query_is_answered(edge: Edge) -> None:
    response = await edge.post("query Page($ids: [ID!]!) { games(ids: $ids) { id } }", variables={"ids": ["1", 2]})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert response.json() == {"data": {"games": [{"id": "1"}, {"id": "2"}]}}


async def test_the_cost_is_in_the_reply_when_asked_for_and_always_in_server_timing(edge: Edge) -> None:
    query = '{ a: game(id: "1") { id } b: game(id: "2") { id } }'
    response = await edge.post(query, headers={"X-Headcount-Cost": "1"})
    assert response.json()["extensions"] == {"cost": {"redisRoundTrips": 2, "graphQueries": 2}}
    response = await edge.post('{ game(id: "1") { id } }')
    assert "extensions" not in response.json()
    timing = response.headers["server-timing"]
    assert timing.startswith("total;dur=")
    assert timing.endswith('redisRoundTrips;desc="1", graphQueries;desc="1"')


async def test_two_requests_at_once_are_counted_and_seen_apart(edge: Edge) -> None:
    async def page(games: int, user: int) -> Any:
        aliases = " ".join(f'g{n}: game(id: "{n}") {{ id }}' for n in range(1, games + 1))
        headers = {**edge.bearer(user), "X-Headcount-Cost": "1"}
        return (await edge.post(f"{{ viewer {aliases} }}", headers=headers)).json()

    replies = await asyncio.gather(*(page(n, 1000 + n) for n in range(1, 21)))
    for n, reply in enumerate(replies, start=1):
        assert reply["data"]["viewer"] == str(1000 + n)
        assert reply["extensions"]["cost"]["graphQueries"] == n


async def test_a_request_id_is_kept_when_plain_and_made_otherwise(edge: Edge) -> None:
    assert (await edge.post("{ first }", headers={"X-Request-Id": "a-1.b_2"})).headers["x-request-id"] == "a-1.b_2"
    for strange in ["x" * 65, "a b", 'a"b', "a\tb"]:
        made = (await edge.post("{ first }", headers={"X-Request-Id": strange})).headers["x-request-id"]
        assert made != strange
        assert made.isalnum()


@pytest.mark.parametrize(
    ("body", "argument"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"\xff\xfe", "body"),
        (b"null", "body"),
        (b'"{ first }"', "body"),
        (b'[{"query": "{ first }"}]', "body"),
        (b"[]", "body"),
        (b"[" * 5000, "body"),
        (b"{}", "query"),
        (b'{"query": null}', "query"),
        (b'{"query": 7}', "query"),
        (b'{"query": " "}', "query"),
        (b'{"query": "{ first }", "variables": "x"}', "variables"),
        (b'{"query": "{ first }", "variables": []}', "variables"),
        (b'{"query": "{ first }", "operationName": 3}', "operationName"),
        (b'{"query": "{ first }", "extensions": "x"}', "extensions"),
    ],
)
async def test_a_body_that_is_no_request_is_400_and_says_which_part(edge: Edge, body: bytes, argument: str) -> None:
    for accept in ("application/json", GRAPHQL):
        headers = {"Content-Type": "application/json", "Accept": accept}
        response = await edge.client.post("/graphql", content=body, headers=headers)
        assert response.status_code == 400
        assert only_error(response)["extensions"] == {"code": "BAD_INPUT", "argument": argument}
    assert edge.store.asked == 0


@pytest.mark.parametrize("nothing", [{"variables": None, "operationName": None, "extensions": None}, {"other": 1}, {}])
async def test_absent_and_null_parts_are_fine(edge: Edge, nothing: dict[str, Any]) -> None:
    assert (await edge.post("{ first }", **nothing)).json() == {"data": {"first": 30}}


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/graphql", ""],
)
async def test_other_content_types_are_415(edge: Edge, content_type: str) -> None:
    body = json.dumps({"query": "{ first }"}).encode()
    response = await edge.client.post("/graphql", content=body, headers={"Content-Type": content_type})
    assert response.status_code == 415
    assert only_error(response)["extensions"] == {"code": "BAD_INPUT", "argument": "Content-Type"}


async def test_a_body_in_utf_8_may_say_so_and_another_charset_is_415(edge: Edge) -> None:
    body = json.dumps({"query": "{ first }"}).encode()
    for content_type in ("application/json; charset=utf-8", 'Application/JSON;Charset="UTF-8"'):
        response = await edge.client.post("/graphql", content=body, headers={"Content-Type": content_type})
        assert response.status_code == 200
    latin = {"Content-Type": "application/json; charset=latin-1"}
    assert (await edge.client.post("/graphql", content=body, headers=latin)).status_code == 415


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("application/json", "application/json"),
        (GRAPHQL, GRAPHQL),
        (f"{GRAPHQL}, application/json;q=0.9", GRAPHQL),
        (f"application/json;q=0.5, {GRAPHQL}", GRAPHQL),
        (f"application/json, {GRAPHQL}", "application/json"),
        (f"{GRAPHQL};q=0, */*", "application/json"),
        (f"text/html, {GRAPHQL};q=0.1", GRAPHQL),
        ("multipart/mixed, application/json;q=x, */*;q=0.1", "application/json"),
    ],
)
async def test_the_media_type_is_the_one_the_caller_likes_better(edge: Edge, accept: str, content_type: str) -> None:
    response = await edge.post("{ first }", headers={"Accept": accept})
    assert response.status_code == 200
    assert response.headers["content-type"] == f"{content_type}; charset=utf-8"


@pytest.mark.parametrize("accept", ["text/html", "multipart/mixed", "application/json;q=0"])
async def test_a_caller_that_takes_neither_is_406(edge: Edge, accept: str) -> None:
    response = await edge.post("{ first }", headers={"Accept": accept})
    assert response.status_code == 406
    assert only_error(response)["extensions"]["argument"] == "Accept"


@pytest.mark.parametrize(
    ("request_body", "code"),
    [
        ({"query": "{ first"}, "GRAPHQL_PARSE_FAILED"),
        ({"query": "{ nothing }"}, "GRAPHQL_VALIDATION_FAILED"),
        ({"query": '{ first(first: "x") }'}, "GRAPHQL_VALIDATION_FAILED"),
        ({"query": "query($n: Int!) { first(first: $n) }", "variables": {"n": "x"}}, "BAD_INPUT"),
        ({"query": "query A { first } query B { first }"}, "BAD_INPUT"),
        ({"query": "{" + " ".join(f"a{n}: first" for n in range(99)) + "}"}, "LIMIT_EXCEEDED"),
    ],
)
async def test_a_request_that_cannot_run_is_200_or_400_by_media_type_and_has_no_data(
    edge: Edge, request_body: dict[str, Any], code: str
) -> None:
    for accept, status in (("application/json", 200), (GRAPHQL, 400)):
        response = await edge.client.post("/graphql", json=request_body, headers={"Accept": accept})
        assert response.status_code == status
        assert "data" not in response.json()
        assert only_error(response)["extensions"]["code"] == code


async def test_a_request_that_ran_is_200_even_where_all_of_it_failed(edge: Edge) -> None:
    response = await edge.post("{ fault }", headers={"Accept": GRAPHQL})
    assert response.status_code == 200
    assert response.json()["data"] == {"fault": None}


async def test_two_operations_need_a_name(edge: Edge) -> None:
    query = "query A { first(first: 1) } query B { first(first: 2) }"
    for name in (None, ""):
        error = only_error(await edge.post(query, operationName=name))
        assert error["extensions"] == {"code": "BAD_INPUT", "argument": "operationName"}
    assert only_error(await edge.post(query, operationName="C"))["extensions"]["argument"] == "operationName"
    assert (await edge.post(query, operationName="B")).json() == {"data": {"first": 2}}
    assert only_error(await edge.post("query A { first }", operationName="B"))["extensions"]["code"] == "BAD_INPUT"


async def test_subscriptions_are_sent_to_the_websocket(edge: Edge) -> None:
    error = only_error(await edge.post("subscription { count(to: 1) }"))
    assert error["extensions"] == {"code": "BAD_INPUT", "argument": "query"}
    assert "WebSocket" in error["message"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_other_methods_are_405_and_run_nothing(edge: Edge, method: str) -> None:
    response = await edge.client.request(method, '/graphql?query={game(id:"1"){id}}')
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert only_error(response)["extensions"]["code"] == "BAD_INPUT"
    assert edge.store.asked == 0


async def test_head_is_405_without_a_body(edge: Edge) -> None:
    response = await edge.client.head("/graphql")
    assert response.status_code == 405
    assert response.content == b""


async def test_a_long_body_is_413_whether_it_says_so_or_not(make_edge: MakeEdge) -> None:
    edge = make_edge(Limits(body_bytes=1_000))
    headers = {"Content-Type": "application/json"}

    async def pieces() -> Any:
        for _ in range(100):
            yield b" " * 100

    exact = json.dumps({"query": "{ first }"}).encode().ljust(1_000)
    assert (await edge.client.post("/graphql", content=exact, headers=headers)).status_code == 200
    for content in (exact + b" ", pieces()):
        response = await edge.client.post("/graphql", content=content, headers=headers)
        assert response.status_code == 413
        extensions = only_error(response)["extensions"]
        assert extensions["code"] == "LIMIT_EXCEEDED"
        assert extensions["limit"] == 1_000
        assert extensions["actual"] > 1_000


async def _raw(edge: Edge, headers: list[tuple[bytes, bytes]], messages: list[dict[str, Any]]) -> tuple[int, int]:
    """Status, and how many messages of the body were read. What comes after the last one never comes."""
    sent: list[dict[str, Any]] = []
    read = 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        if read == len(messages):
            await asyncio.Event().wait()
        read += 1
        return messages[read - 1]

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/graphql", "query_string": b"", "headers": headers}
    await edge.app(scope, receive, send)
    return sent[0]["status"], read


async def test_a_length_that_lies_is_found_out_and_one_that_is_too_long_reads_nothing(make_edge: MakeEdge) -> None:
    edge = make_edge(Limits(body_bytes=1_000))
    kind = (b"content-type", b"application/json")
    pieces: list[dict[str, Any]] = [{"type": "http.request", "body": b" " * 600, "more_body": True}] * 50
    assert await _raw(edge, [kind, (b"content-length", b"10")], pieces) == (413, 2)
    assert await _raw(edge, [kind, (b"content-length", b"10000000")], pieces) == (413, 0)
    assert await _raw(edge, [kind, (b"content-length", b"nonsense")], pieces) == (413, 2)


async def test_a_body_that_stops_or_does_not_come_is_refused(make_edge: MakeEdge) -> None:
    edge = make_edge(Limits(body_seconds=0.0))
    kind = (b"content-type", b"application/json")
    first: dict[str, Any] = {"type": "http.request", "body": b"{", "more_body": True}
    assert await _raw(edge, [kind], [first]) == (408, 1)
    edge = make_edge()
    assert await _raw(edge, [kind], [first, {"type": "http.disconnect"}]) == (400, 2)
    assert await _raw(edge, [kind], [{"type": "http.disconnect"}]) == (400, 1)


async def test_a_reply_that_cannot_be_written_is_an_internal_error(edge: Edge, lines: list[dict[str, Any]]) -> None:
    response = await edge.post("{ tooBig }")
    error = only_error(response)
    assert error["message"] == "Internal error"
    assert error["extensions"] == {"code": "INTERNAL", "requestId": response.headers["x-request-id"]}
    assert [line for line in lines if line["log_level"] == "error"]
