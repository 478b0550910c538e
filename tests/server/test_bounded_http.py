"""What comes before a request is whole: heads without end, heads that do not come, and those that are fine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from server import bounded_http
from server.bounded_http import HEAD_BYTES
from tests.served import Serve, Served
from tests.server.conftest import Edge

QUERY = json.dumps({"query": "{ first }"}).encode()


@pytest.fixture
async def served(edge: Edge, serve: Serve) -> Served:
    return await serve(edge.app)


@asynccontextmanager
async def connected(served: Served) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def request(padding: int = 0) -> bytes:
    return (
        b"POST /graphql HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
        b"X-Padding: %b\r\nContent-Length: %d\r\n\r\n%b" % (b"a" * padding, len(QUERY), QUERY)
    )


async def reply(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(head.split()[1]), json.loads(await reader.readexactly(length))


async def test_a_head_without_end_is_refused_while_it_comes(served: Served) -> None:
    for start, more in ((b"GET /", b"a"), (b"GET / HTTP/1.1\r\nX: ", b"a"), (b"GET / HTTP/1.1\r\n", b"X: a\r\n")):
        async with connected(served) as (reader, writer):
            writer.write(start)
            sent = 0
            while not reader.at_eof() and sent < 100 * HEAD_BYTES:
                writer.write(more * (4_096 // len(more)))
                sent += 4_096
                try:
                    await writer.drain()
                except ConnectionError:
                    break
                await asyncio.sleep(0)
            assert sent < 100 * HEAD_BYTES


async def test_a_head_that_is_too_long_is_refused_in_the_words_of_the_api(served: Served) -> None:
    async with connected(served) as (reader, writer):
        writer.write(request(padding=HEAD_BYTES))
        status, body = await reply(reader)
        assert status == 431
        error = body["errors"][0]
        assert error["extensions"]["code"] == "LIMIT_EXCEEDED"
        assert error["extensions"]["limit"] == HEAD_BYTES
        assert await reader.read() == b""


async def test_long_heads_and_many_requests_on_a_connection_are_fine(served: Served) -> None:
    async with connected(served) as (reader, writer):
        for _ in range(3):
            writer.write(request(padding=HEAD_BYTES - 2_000))
            assert (await reply(reader))[0] == 200
        for _ in range(200):  # in one piece, longer than a head may be
            writer.write(request(padding=1_000))
        for _ in range(200):
            assert (await reply(reader))[0] == 200


async def test_a_head_that_does_not_come_ends_the_connection(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_SECONDS", 0.2)
    for start in (b"", b"GET /graphql HT", b"GET /graphql HTTP/1.1\r\nHost: h\r\n"):
        async with connected(served) as (reader, writer):
            writer.write(start)
            assert await asyncio.wait_for(reader.read(), 10) == b""
    async with connected(served) as (reader, writer):
        writer.write(request())
        assert (await reply(reader))[0] == 200
        writer.write(b"POST /graph")
        assert await asyncio.wait_for(reader.read(), 10) == b""


async def test_what_is_no_http_is_still_400(served: Served) -> None:
    async with connected(served) as (reader, writer):
        writer.write(b"garbage\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")
