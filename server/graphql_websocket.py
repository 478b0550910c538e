"""Operations over WebSockets, by the protocol `graphql-transport-ws` and no other.

https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md has its messages and close codes. Beyond it: a bad or
expired token closes with 4403, at which clients come back with a fresh one (at 4401 they give up); too many sockets of
one user with 4429, at which they give up; a restart with 1012, at which they come back.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack, aclosing, suppress
from typing import Any

import orjson
import structlog
from starlette.types import Receive, Scope, Send

from resolvers.errors import LimitExceeded, Unauthenticated, Unavailable
from server.deadline import Deadline
from server.errors import error_body
from server.limits import Limits
from server.operations import Operations
from server.origins import Origins
from server.replies import headers_of, request_id_of
from server.socket_messages import ClosedError, decode, operation_id_of
from server.streamed_operation import StreamedOperation
from server.tokens import Principal, Tokens
from server.user_connections import UserConnections

log = structlog.get_logger(__name__)

PROTOCOL = "graphql-transport-ws"


class GraphQLSockets:
    """Takes WebSockets, each with a viewer and operations of its own."""

    def __init__(
        self,
        operations: Operations,
        tokens: Tokens,
        limits: Limits,
        origins: Origins,
        connections: UserConnections,
    ) -> None:
        self.operations = operations
        self.tokens = tokens
        self.limits = limits
        self.origins = origins
        self.connections = connections
        self.open: set[_Socket] = set()

    @property
    def running(self) -> int:
        """Operations that run on all sockets just now."""
        return sum(len(socket.running) for socket in self.open)

    def close_deleted(self) -> None:
        """Close the sockets of users who were deleted meanwhile."""
        for socket in self.open:
            socket.check_user()

    async def drain(self, spread_seconds: float) -> None:
        """Close all with 1012 ("service restart"), at which clients come back, each at a moment of its own within so
        many seconds. Replies and snapshots under way come first.
        """
        closes = (socket.drain(random.uniform(0, spread_seconds)) for socket in self.open)  # not a secret
        await asyncio.gather(*closes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        headers = headers_of(scope)
        if not self.origins.may_open_socket(headers):
            log.info("websocket_refused", reason="origin")
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: HTTP 403
            return
        if PROTOCOL not in scope["subprotocols"]:
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": 4406, "reason": "Subprotocol not acceptable"})
            return
        await send({"type": "websocket.accept", "subprotocol": PROTOCOL})
        socket = _Socket(self, headers, receive, send)
        self.open.add(socket)
        try:
            await socket.serve()
        finally:
            self.open.discard(socket)


class _Socket:
    """One connection."""

    def __init__(self, sockets: GraphQLSockets, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        self.running: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # also those that are being cancelled
        self._replies: set[asyncio.Task[None]] = set()  # whose reply, or first event, is not out yet
        self._all_replied = asyncio.Event()
        self._all_replied.set()
        self._sockets = sockets
        self._headers = headers
        self._receive = receive
        self._send = send
        self._request_id = request_id_of(headers)
        self._asked = 0
        self._principal: Principal | None = None
        self._initialised = False
        self._acknowledged = False
        self._closed = False
        self._deadline: Deadline | None = None
        self._held = ExitStack()
        self._closing: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Read until either side closes; then nothing of this socket runs on."""
        self._close_after(self._sockets.limits.init_seconds, 4408, "Connection initialisation timeout")
        try:
            while not self._closed:
                message = await self._receive()
                if message["type"] == "websocket.disconnect":
                    self._closed = True
                    return
                try:
                    await self._take(decode(message, self._sockets.limits.body_bytes))
                except ClosedError as refused:
                    await self._close(refused.code, refused.reason)
        finally:
            await self._stop()

    def check_user(self) -> None:
        """Close with 4403 where the user was deleted."""
        try:
            if self._principal is not None:
                self._sockets.tokens.check_user(self._principal)
        except Unauthenticated as error:
            self._close_after(0.0, 4403, error.message)

    async def drain(self, delay_seconds: float) -> None:
        """Close with 1012 in a while, once nothing is being answered."""
        await asyncio.sleep(delay_seconds)
        await self._all_replied.wait()
        await self._close(1012, "The server restarts")

    async def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._held.close()
        for task in self._tasks:
            task.cancel()
        # Their clean-up (leaving a subscription) is part of this socket's end.
        await asyncio.gather(*self._tasks, *([self._closing] if self._closing else []), return_exceptions=True)

    async def _take(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "connection_init":
                await self._initialise(message.get("payload"))
            case "ping":
                await self._tell({"type": "pong"})
            case "pong":
                pass
            case "subscribe":
                await self._subscribe(message)
            case "complete":
                if (task := self.running.pop(operation_id_of(message), None)) is not None:
                    task.cancel()
            case _:
                raise ClosedError(4400, "Unknown message type")

    async def _initialise(self, payload: object) -> None:
        if self._initialised:
            raise ClosedError(4429, "Too many initialisation requests")
        if not isinstance(payload, dict | None):
            raise ClosedError(4400, "The payload of connection_init must be an object")
        self._initialised = True
        if self._deadline is not None:
            self._deadline.cancel()
        try:
            self._principal = await self._principal_of(payload or {})
        except Unauthenticated as error:
            raise ClosedError(4403, error.message) from None
        except Unavailable as error:
            raise ClosedError(1013, error.message) from None
        if self._principal is not None:
            try:
                self._held.enter_context(self._sockets.connections.one_more(self._principal.user_id))
            except LimitExceeded as error:
                raise ClosedError(4429, error.message) from None
            left = self._principal.expires_at - self._sockets.tokens.clock()
            self._close_after(left, 4403, "The token has expired.")
        self._acknowledged = True
        await self._tell({"type": "connection_ack"})

    async def _principal_of(self, payload: dict[str, Any]) -> Principal | None:
        """Who asks: by the payload, else by the handshake's header, which only programs can set; else nobody."""
        given = [value for name, value in payload.items() if name.lower() == "authorization" and value is not None]
        if not given and (header := self._headers.get(b"authorization")) is not None:
            given = [header.decode("latin-1")]
        if not given:
            return None
        if len(given) > 1 or not isinstance(given[0], str):
            raise Unauthenticated("There must be one Authorization.")
        return await self._sockets.tokens.verify_header(given[0])

    async def _subscribe(self, message: dict[str, Any]) -> None:
        if not self._acknowledged:
            raise ClosedError(4401, "Unauthorized")
        operation_id, payload = operation_id_of(message), message.get("payload")
        if not isinstance(payload, dict) or not isinstance(payload.get("query"), str):
            raise ClosedError(4400, "The payload of subscribe must have a query")
        if operation_id in self.running:
            raise ClosedError(4409, f"Subscriber for {operation_id} already exists")
        most = self._sockets.limits.operations_a_socket
        if len(self.running) >= most:
            refused = LimitExceeded("operations on one socket", most, len(self.running) + 1)
            await self._tell({"id": operation_id, "type": "error", "payload": [error_body(refused)]})
            return
        self._asked += 1
        request_id = f"{self._request_id}-{self._asked}"
        task = asyncio.create_task(self._run(operation_id, request_id, payload))
        self.running[operation_id] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._replies.add(task)
        self._all_replied.clear()
        task.add_done_callback(self._replied)

    async def _run(self, operation_id: str, request_id: str, payload: dict[str, Any]) -> None:
        """One operation from its first message to its last."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # for mypy: this runs in one
        run = StreamedOperation(self._sockets.operations, self._principal, request_id, payload, transport="websocket")
        run.begin()
        try:
            async with aclosing(run.messages()) as messages:
                async for message in messages:
                    if message["type"] != "next":
                        # Free before the last message is out, so that the client may use the id again at once.
                        self._forget(operation_id)
                    await self._tell({"id": operation_id, **message})
                    if run.is_subscription:
                        self._replied(task)
                    # Neither a source that has its events at hand nor a send that fits the buffer gives way.
                    await asyncio.sleep(0)
        finally:
            self._forget(operation_id)
            run.log()

    def _replied(self, task: asyncio.Task[None]) -> None:
        self._replies.discard(task)
        if not self._replies:
            self._all_replied.set()

    def _forget(self, operation_id: str) -> None:
        if self.running.get(operation_id) is asyncio.current_task():
            del self.running[operation_id]

    async def _tell(self, message: dict[str, Any]) -> None:
        if self._closed:
            return
        try:
            # A text frame: browsers' clients take no binary ones.
            await self._send({"type": "websocket.send", "text": orjson.dumps(message).decode()})
        except (OSError, RuntimeError):
            # The client went away, or the socket was closed for what it sent or while this waited for a slow reader.
            # The reader of messages hears of it too.
            self._closed = True

    def _close_after(self, seconds: float, code: int, reason: str) -> None:
        """Close in some time, unless something else is set for later."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = Deadline(seconds, lambda: self._begin_close(code, reason))

    def _begin_close(self, code: int, reason: str) -> None:
        self._closing = asyncio.create_task(self._close(code, reason))

    async def _close(self, code: int, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        with suppress(OSError, RuntimeError):  # it was closed meanwhile
            await self._send({"type": "websocket.close", "code": code, "reason": reason[:120]})
