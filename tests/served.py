"""ASGI applications behind a real server, for what needs sockets."""

from __future__ import annotations

import asyncio
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


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a server as the program does; all of them stop at the end of the test."""
    running: list[tuple[uvicorn.Server, asyncio.Task[None]]] = []

    async def start(app: Any, **changes: Any) -> Served:
        config = server_config(app, port=0, timeout_graceful_shutdown=2, **changes)
        server = uvicorn.Server(config)
        sock = config.bind_socket()
        running.append((server, asyncio.create_task(server.serve([sock]))))
        await until(lambda: server.started)
        return Served(sock.getsockname()[1])

    yield start
    for server, task in running:
        server.should_exit = True
        await task
