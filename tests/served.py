"""ASGI applications behind a real server, for what needs sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn

from server.serving import server_config
from tests.waiting import until


@dataclass
class Served:
    """An ASGI application behind a real server on a free port."""

    port: int

    def url(self, scheme: str, path: str = "/graphql") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"


Serve = Callable[..., Awaitable[Served]]


class _Server(uvicorn.Server):
    """Begins and ends without the tenths of a second that uvicorn sleeps."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = asyncio.Event()

    async def main_loop(self) -> None:
        await self.ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for sock in sockets or []:
            sock.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            await until(lambda: not state.connections and not state.tasks, seconds=2)
        for task in state.tasks:
            task.cancel()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a server as the program does; all of them stop at the end of the test."""
    running: list[tuple[_Server, asyncio.Task[None]]] = []

    async def start(app: Any, **changes: Any) -> Served:
        config = server_config(app, port=0, **changes)
        server = _Server(config)
        sock = config.bind_socket()
        running.append((server, asyncio.create_task(server.serve([sock]))))
        await until(lambda: server.started)
        return Served(sock.getsockname()[1])

    yield start
    for server, task in running:
        server.ended.set()
        await task
