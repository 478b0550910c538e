"""Sockets, uvicorn and, where asked, several web processes on one socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

import structlog
import uvicorn
from starlette.types import ASGIApp

from server.bounded_http import BoundedHTTP
from server.bounded_websocket import BoundedWebSocket

log = structlog.get_logger(__name__)

BACKLOG = 2048
DRAIN_SECONDS = 10
RESTART_SECONDS = 1.0
#: Who has a socket or a stream open is told to come back within this long, so that not all come at once.
DRAIN_SPREAD_SECONDS = 2.0
#: A socket that leaves a ping unanswered for so long is dead.
PING_SECONDS = 20.0

#: Tells who is connected to come back, spread over so many seconds.
Drain: TypeAlias = Callable[[float], Awaitable[None]]


class PortTakenError(Exception):
    """The address cannot be listened on; the text is one line."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        PortTakenError: another program has the port, or the host is none of this machine's.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, proto)
    except OSError as error:
        raise PortTakenError(f"cannot listen on {host}: {error.strerror}") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PortTakenError(f"cannot listen on {host}:{port}: {reason}") from None
    # Not inheritable: uvloop closes nothing in a program that it starts, so the embedded Redis would hold the port on
    # after this process was killed. Web processes get it by `pass_fds`.
    return sock


class _Server(uvicorn.Server):
    """uvicorn raises a signal again once it has shut down, before the stores could be closed; this one does not. And it
    closes sockets in the middle of a reply; here they are drained first.
    """

    def __init__(self, config: uvicorn.Config, drain: Drain | None = None) -> None:
        super().__init__(config)
        self._drain = drain

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, tell those with sockets and streams to come back, let requests finish."""
        if self._drain is not None:
            for server in self.servers:
                server.close()
            await self._until_drained(self._drain)
        await super().shutdown(sockets)

    async def _until_drained(self, drain: Drain) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DRAIN_SECONDS
        draining = asyncio.ensure_future(drain(DRAIN_SPREAD_SECONDS))
        try:
            while not self.force_exit and not draining.done() and loop.time() < deadline:
                await asyncio.wait({draining}, timeout=0.1)
        finally:
            draining.cancel()
        (fault,) = await asyncio.gather(draining, return_exceptions=True)
        if isinstance(fault, Exception):
            log.error("not_drained", exc_info=fault)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


def server_config(app: ASGIApp, **changes: Any) -> uvicorn.Config:
    """How uvicorn serves the application."""
    return uvicorn.Config(
        app,
        **{
            "http": BoundedHTTP,
            "ws": BoundedWebSocket,
            "loop": "none",
            "lifespan": "off",
            "access_log": False,
            "log_config": None,
            "server_header": False,
            "date_header": False,
            "proxy_headers": False,
            "ws_max_size": 64 * 1024,
            # Compressed, a socket with a page of 30 games takes 94 KiB of memory, and 45 so, with less CPU.
            "ws_per_message_deflate": False,
            "ws_ping_interval": PING_SECONDS,
            "ws_ping_timeout": PING_SECONDS,
            "timeout_graceful_shutdown": DRAIN_SECONDS,
            "backlog": BACKLOG,
            **changes,
        },
    )


async def serve_app(
    app: ASGIApp,
    sock: socket.socket,
    *,
    on_started: Callable[[], None] | None = None,
    drain: Drain | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, then drain and let requests in flight finish."""
    server = _Server(server_config(app), drain)
    watcher = asyncio.create_task(_tell_when_started(server, on_started)) if on_started is not None else None
    try:
        await server.serve(sockets=[sock])
    finally:
        if watcher is not None:
            watcher.cancel()


@contextlib.asynccontextmanager
async def serve_beside(app: ASGIApp, sock: socket.socket) -> AsyncIterator[None]:
    """Serve a second application for as long as the context is open; signals are none of its business."""
    server = _Server(server_config(app, ws="none", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server._serve([sock]), name="metrics-port")  # `serve` would take the signals
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)


async def _tell_when_started(server: uvicorn.Server, on_started: Callable[[], None]) -> None:
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
        await asyncio.sleep(0.005)
    on_started()


async def until_stopped() -> None:
    """Wait for SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        await stopped.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def leave_with_parent(lifeline: int) -> None:
    """Stop this process, as SIGTERM would, once its parent is gone: then nobody holds the other end of this pipe."""
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(lifeline)
        log.error("parent_died")
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(lifeline, gone)


class WebProcesses:
    """Web processes on one listening socket: programs of their own (never forked), replaced when they die.

    Args:
        arguments: of the Python that runs each; the number of the process (1, 2 …) follows, then those of two file
            descriptors: of the socket, and of a pipe that ends when this process does (see `leave_with_parent`).
        sock: where they listen.
        count: how many there are.
    """

    def __init__(self, arguments: Sequence[str], sock: socket.socket, count: int) -> None:
        self._arguments = arguments
        self._socket = sock
        self._count = count
        self._processes: set[asyncio.subprocess.Process] = set()

    async def run(self) -> None:
        """Keep them running until cancelled, then stop them in order."""
        lifeline, held = os.pipe()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(1, self._count + 1):
                    group.create_task(self._keep_one(number, lifeline))
        finally:
            for process in self._processes:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            await asyncio.gather(*(process.wait() for process in self._processes))
            os.close(held)
            os.close(lifeline)

    async def _keep_one(self, number: int, lifeline: int) -> None:
        descriptors = (self._socket.fileno(), lifeline)
        while True:
            # A session of its own: Ctrl-C reaches the parent alone, which then stops the children in order.
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *self._arguments,
                    str(number),
                    *map(str, descriptors),
                    pass_fds=descriptors,
                    start_new_session=True,
                )
            except OSError as error:  # no process, memory or descriptor to be had just now: the others serve on
                log.error("web_process_not_started", reason=str(error))
            else:
                self._processes.add(process)
                code = await process.wait()
                self._processes.discard(process)
                log.error("web_process_died", pid=process.pid, exit_code=code)
            await asyncio.sleep(RESTART_SECONDS)
