"""WebSockets whose other side is dead, deaf or hostile: frames by hand, over a plain connection."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from server import bounded_websocket
from tests.served import Serve, Served
from tests.server.conftest import Edge
from tests.waiting import until

TEXT, CONTINUATION, CLOSE, PING, PONG = 0x1, 0x0, 0x8, 0x9, 0xA
COUNT = {"id": "1", "type": "subscribe", "payload": {"query": "subscription { count(to: 10000000) }"}}


def frame(opcode: int, payload: bytes = b"", *, final: bool = True) -> bytes:
    """A frame as a client sends it, its mask all zeros."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65_536:
        length = struct.pack("!BH", 0x80 | 126, size)
    else:
        length = struct.pack("!BQ", 0x80 | 127, size)
    return bytes([(0x80 if final else 0) | opcode]) + length + bytes(4) + payload


class RawSocket:
    """A WebSocket that answers nothing by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def tell(self, message: object) -> None:
        self.writer.write(frame(TEXT, json.dumps(message).encode()))
        await self.writer.drain()

    async def hear(self) -> tuple[int, bytes]:
        """The opcode and the payload of the next frame."""
        async with asyncio.timeout(10):
            first, size = await self.reader.readexactly(2)
            if size == 126:
                (size,) = struct.unpack("!H", await self.reader.readexactly(2))
            return first & 0xF, await self.reader.readexactly(size)

    async def close_code(self) -> int:
        """The code that the server closes with."""
        while True:
            opcode, payload = await self.hear()
            if opcode == CLOSE:
                return int.from_bytes(payload[:2], "big")

    async def ended(self) -> None:
        """Wait until the connection is gone."""
        async with asyncio.timeout(10):
            try:
                while await self.reader.read(65_536):
                    pass
            except ConnectionError:
                pass


@asynccontextmanager
async def raw_socket(served: Served) -> AsyncIterator[RawSocket]:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(
        b"GET /graphql HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
        b"Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
    )
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    try:
        yield RawSocket(reader, writer)
    finally:
        writer.transport.abort()


@pytest.fixture
async def served(edge: Edge, serve: Serve) -> Served:
    return await serve(edge.app)


async def test_a_frame_of_ten_megabytes_is_refused_and_the_client_reads_it(served: Served, edge: Edge) -> None:
    async with raw_socket(served) as socket:
        await socket.tell({"type": "connection_init"})
        await socket.hear()
        big = frame(TEXT, b" " * 10_485_760)
        sending = asyncio.create_task(send_slowly(socket.writer, big))
        assert await socket.close_code() == 1009
        await sending
        socket.writer.close()
        await until(lambda: not edge.app.sockets.open)


async def send_slowly(writer: asyncio.StreamWriter, data: bytes) -> None:
    for start in range(0, len(data), 1 << 20):
        writer.write(data[start : start + (1 << 20)])
        await writer.drain()


async def test_who_is_told_to_close_and_goes_on_sending_is_cut_off(
    served: Served, edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_websocket, "CLOSE_SECONDS", 0.1)
    async with raw_socket(served) as refused, raw_socket(served) as too_long:
        refused.writer.write(frame(TEXT, b"garbage"))
        assert await refused.close_code() == 4400
        await refused.ended()
        too_long.writer.write(frame(TEXT, b" " * 65_537))
        assert await too_long.close_code() == 1009
        await too_long.ended()
    await until(lambda: not edge.app.sockets.open)


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 64, frame(0x7, b"x"), Random(1).randbytes(4096)],
    ids=["ones", "a reserved opcode", "noise"],
)
async def test_what_is_no_websocket_is_closed(served: Served, edge: Edge, garbage: bytes) -> None:
    async with raw_socket(served) as socket:
        await until(lambda: len(edge.app.sockets.open) == 1)
        socket.writer.write(garbage)
        await until(lambda: not edge.app.sockets.open)


async def test_a_client_that_answers_no_ping_is_gone(edge: Edge, serve: Serve) -> None:
    served = await serve(edge.app, ws_ping_interval=0.05, ws_ping_timeout=0.1)
    async with raw_socket(served) as dead, raw_socket(served) as alive:
        opcode, payload = await alive.hear()
        assert opcode == PING
        alive.writer.write(frame(PONG, payload))
        await dead.ended()
        opcode, payload = await alive.hear()
        assert opcode == PING
        assert len(edge.app.sockets.open) == 1


async def test_who_reads_nothing_is_given_up(served: Served, edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.write_deadline.UNREAD_SECONDS", 0.1)
    async with raw_socket(served) as socket:
        await socket.tell({"type": "connection_init"})
        await socket.hear()
        await socket.tell(COUNT)
        await until(lambda: edge.app.sockets.running == 1)
        await until(lambda: not edge.app.sockets.open)
    assert edge.app.sockets.running == 0


async def test_who_pings_without_end_and_reads_nothing_fills_no_memory(served: Served, edge: Edge) -> None:
    async with raw_socket(served) as socket:
        await until(lambda: len(edge.app.sockets.open) == 1)
        pings = frame(PING, b"x" * 125) * 500
        sent = 0
        while edge.app.sockets.open and sent < 100 << 20:
            socket.writer.write(pings)
            sent += len(pings)
            await asyncio.sleep(0)
            if socket.writer.transport.is_closing():
                break
        await until(lambda: not edge.app.sockets.open)


async def test_a_message_of_endless_empty_parts_is_cut_off(served: Served, edge: Edge) -> None:
    async with raw_socket(served) as socket:
        await until(lambda: len(edge.app.sockets.open) == 1)
        socket.writer.write(frame(TEXT, final=False) + frame(CONTINUATION, final=False) * 2_000)
        await socket.ended()
        await until(lambda: not edge.app.sockets.open)
