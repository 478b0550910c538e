from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from server.logs import without_tokens
from server.tokens import Tokens
from tests.served import Served
from tests.server.conftest import SECRET, Edge
from tests.server.test_graphql_websocket import PROTOCOL, Socket
from tests.server.test_tokens import BAD

ROOT = Path(__file__).parents[2]


async def test_one_line_a_request_says_what_it_was_and_what_it_took(edge: Edge, lines: list[dict[str, Any]]) -> None:
    await edge.post(
        'query Page { game(id: "1") { id } }', operationName="Page", headers={"X-Request-Id": "r-1", **edge.bearer()}
    )
    assert len(lines) == 1
    line = lines[0]
    assert line.pop("ms") >= 0
    assert line == {
        "event": "graphql",
        "log_level": "info",
        "operation": "Page",
        "type": "query",
        "status": 200,
        "redis_round_trips": 1,
        "graph_queries": 1,
        "request_id": "r-1",
    }


@pytest.mark.parametrize(
    ("body", "status", "codes"),
    [
        (b"{", 400, ["BAD_INPUT"]),
        (b'{"query": "{ nothing }"}', 200, ["GRAPHQL_VALIDATION_FAILED"]),
        (
            b'{"query": "{ games(ids: [\\"1\\", \\"5000\\", \\"5001\\"]) { friendsPlayed } }"}',
            200,
            ["UNAVAILABLE", "NOT_FOUND"],
        ),
    ],
)
async def test_a_refusal_has_its_line_with_the_codes(
    edge: Edge, lines: list[dict[str, Any]], body: bytes, status: int, codes: list[str]
) -> None:
    await edge.client.post("/graphql", content=body, headers={"Content-Type": "application/json"})
    assert [(line["status"], sorted(line["codes"])) for line in lines] == [(status, sorted(codes))]


async def test_an_operation_s_name_is_cut_and_holds_nothing_but_letters(
    edge: Edge, lines: list[dict[str, Any]]
) -> None:
    await edge.post(f"query {'N' * 500} {{ first }}")
    await edge.post("{ first }", operationName='x\n{"event": "forged"}')
    assert [line["operation"] for line in lines] == ["N" * 64, ""]


SERVER = """
import asyncio, sys
from server.graphql_http import GraphQLApp
from server.logs import configure_logging
from server.serving import listen, serve_app
from server.tokens import Tokens
from tests.server.conftest import SECRET
from tests.server.small_schema import Context, Store, small_schema

configure_logging("DEBUG")
store = Store()
app = GraphQLApp(small_schema(), make_context=lambda *who: Context(store, *who), tokens=Tokens(secret=SECRET))
sock = listen("127.0.0.1", 0)
print(sock.getsockname()[1], flush=True)
asyncio.run(serve_app(app, sock))
"""


async def test_no_token_is_ever_logged_or_answered_even_at_the_lowest_level() -> None:
    """By a server of its own, in whose log nothing of the test's own clients stands."""
    good = Tokens(secret=SECRET).sign(7, ["admin"], 3600)
    tokens = [good, *(token for token in BAD.values() if 20 < len(token) < 2_000)]
    told: list[str] = []
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    try:
        served = Served(int(await program.stdout.readline()))
        async with httpx.AsyncClient() as client:
            for token in tokens:
                headers = {"Authorization": f"Bearer {token}"}
                path = f"/graphql?access_token={token}"
                reply = await client.post(served.url("http", path), json={"query": "{ fault }"}, headers=headers)
                told.append(reply.text)
                told.append((await client.get(served.url("http", path), headers=headers)).text)
                async with connect(
                    served.url("ws", path), subprotocols=[PROTOCOL], additional_headers=headers
                ) as connection:
                    socket = Socket(connection)
                    await socket.tell({"type": "connection_init", "payload": headers})
                    if token == good:
                        await socket.hear()
                        await socket.subscribe("1", "subscription { faulty }")
                        told.extend([json.dumps(await socket.hear()), json.dumps(await socket.hear())])
                    else:
                        assert await socket.closed() == 4403
                        told.append(str(connection.close_reason))
    finally:
        program.terminate()
        _, log = await program.communicate()
    logged = [json.loads(line) for line in log.decode().splitlines()]
    assert sum(line["event"] == "graphql" for line in logged) == 2 * len(tokens) + 1
    assert sum(line["event"] == "internal_error" for line in logged) == 2
    text = json.dumps(told) + log.decode()
    for token in tokens:
        for part in token.split("."):
            for start in range(0, len(part) - 15, 8):
                assert part[start : start + 16] not in text


def test_what_looks_like_a_token_is_taken_out_of_any_text() -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.c2lnbmF0dXJl"
    for text in (
        token,
        f"Bearer {token}",
        f'{{"Authorization": "Bearer {token}"}}',
        f"/graphql?token={token}&x=1",
        "bearer abcdefgh123",
    ):
        assert without_tokens(f"before {text} after").startswith("before ")
        assert token not in without_tokens(text)
        assert "abcdefgh123" not in without_tokens(text)
    plain = "the bearer of news: eyJ, 12.5 ms"
    assert without_tokens(plain) == plain


PROGRAM = """
import logging, structlog
from server.logs import configure_logging
configure_logging("INFO")
log = structlog.get_logger("x")
token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.c2lnbmF0dXJl"
log.info("graphql", ms=1.5, header=f"Bearer {token}")
log.debug("not this")
logging.getLogger("library").warning("from a library: %s", token)
logging.getLogger("uvicorn.error").info('"WebSocket /graphql?token=%s" [accepted]', token)
try:
    raise RuntimeError(token)
except RuntimeError as error:
    log.error("internal_error", exc_info=error, weird={1: object})
"""


def test_lines_are_json_for_machines_with_tracebacks_and_libraries_and_without_tokens() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "eyJ" not in done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("graphql", "info"),
        ("from a library: [token]", "warning"),
        ("internal_error", "error"),
    ]
    assert lines[0]["header"] == "[token]"
    assert lines[0]["ms"] == 1.5
    assert all(line["time"].endswith("Z") for line in lines)
    assert "RuntimeError: [token]" in lines[2]["exception"]
