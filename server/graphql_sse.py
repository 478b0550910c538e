"""Operations over server-sent events, by the protocol graphql-sse in its "distinct connections mode".

https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md: one operation a POST; its answers come as `next`
events, then `complete`. Whatever the document is refused for comes as a `next` event with `errors` too. A stream that
ends without `complete` was broken off (the token ran out, the server restarts), and clients come back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import orjson
from starlette.types import Receive, Send

from resolvers.errors import Unauthenticated
from server.deadline import Deadline
from server.limits import Limits
from server.operations import Operations
from server.replies import Header
from server.streamed_operation import Message, StreamedOperation
from server.tokens import Principal, Tokens

#: `no-transform` and `X-Accel-Buffering` keep proxies from holding events back to compress or to buffer them.
_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)
# A comment needs no empty line behind it, which some clients take for the end of an event.
_COMMENT = b":\n"
_COMPLETE = b"event: complete\ndata: \n\n"


class GraphQLStreams:
    """Serves event streams, each with one operation."""

    def __init__(self, operations: Operations, tokens: Tokens, limits: Limits) -> None:
        self.operations = operations
        self.tokens = tokens
        self.limits = limits
        self.open: set[_Stream] = set()
        self.draining = False

    async def serve(
        self,
        receive: Receive,
        send: Send,
        payload: dict[str, Any],
        *,
        principal: Principal | None,
        request_id: str,
        headers: Sequence[Header],
        with_cost: bool,
    ) -> None:
        """Answer a request with a stream, until its operation is done or the client goes away.

        Args:
            receive: of the request, whose body was read.
            send: of the request.
            payload: `query`, `variables` and `operationName`.
            principal: who asks.
            request_id: for the log.
            headers: of the reply, beside those of a stream.
            with_cost: whether answers say what the operation took so far.
        """
        operation = StreamedOperation(
            self.operations, principal, request_id, payload, transport="sse", with_cost=with_cost
        )
        stream = _Stream(self, operation, principal, receive, send)
        self.open.add(stream)
        try:
            await stream.serve([*_HEADERS, (b"x-request-id", request_id.encode()), *headers])
        finally:
            self.open.discard(stream)

    def close_deleted(self) -> None:
        """End the streams of users who were deleted meanwhile."""
        for stream in self.open:
            stream.check_user()

    async def drain(self, spread_seconds: float) -> None:
        """End all streams, each at a moment of its own within so many seconds. Replies and snapshots come first."""
        self.draining = True
        ends = (stream.drain(random.uniform(0, spread_seconds)) for stream in self.open)  # not a secret
        await asyncio.gather(*ends)


class _Stream:
    """One response."""

    def __init__(
        self,
        streams: GraphQLStreams,
        operation: StreamedOperation,
        principal: Principal | None,
        receive: Receive,
        send: Send,
    ) -> None:
        self._streams = streams
        self._operation = operation
        self._principal = principal
        self._receive = receive
        self._send = send
        self._answered = asyncio.Event()  # the reply is out, or a subscription's snapshot is
        self._sending = False
        self._quiet = True
        self._last_words = b""
        self._running: asyncio.Task[None] | None = None
        self._comment: asyncio.Task[None] | None = None
        self._keep_alive: asyncio.TimerHandle | None = None

    async def serve(self, headers: list[Header]) -> None:
        """Send until the operation is done, the client goes away, or the stream is ended from here."""
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(_COMMENT)  # so that the head goes out before the first answer is known
        self._running = asyncio.create_task(self._run(), name="sse-operation")
        gone = asyncio.create_task(self._until_gone(), name="sse-gone")
        # On a connection that was kept alive there may come new requests while the others end.
        draining = [asyncio.create_task(self.drain(0.0), name="sse-drain")] if self._streams.draining else []
        expiry = self._until_expiry()
        self._wait_to_comment()
        try:
            await asyncio.wait({self._running, gone}, return_when=asyncio.FIRST_COMPLETED)
            went_away = gone.done()
        finally:
            if expiry is not None:
                expiry.cancel()
            if self._keep_alive is not None:
                self._keep_alive.cancel()
            tasks = [task for task in (self._running, gone, self._comment, *draining) if task is not None]
            for task in tasks:
                task.cancel()
            # Its clean-up (leaving a subscription) is part of this stream's end.
            await asyncio.gather(*tasks, return_exceptions=True)
            self._answered.set()
        if not self._running.cancelled() and (fault := self._running.exception()) is not None:
            raise fault
        if not went_away:
            await self._write(self._last_words, more=False)

    def check_user(self) -> None:
        """End the stream where its user was deleted."""
        try:
            if self._principal is not None:
                self._streams.tokens.check_user(self._principal)
        except Unauthenticated as error:
            self.end(error.message)

    def end(self, reason: str) -> None:
        """End the stream without `complete`."""
        if self._running is not None and not self._running.done():
            self._last_words = b": %b\n" % reason.encode()
            self._running.cancel()

    async def drain(self, delay_seconds: float) -> None:
        """End it in a while, unless its operation is done by then."""
        await asyncio.sleep(delay_seconds)
        await self._answered.wait()
        self.end("The server restarts.")

    def _until_expiry(self) -> Deadline | None:
        if self._principal is None:
            return None
        left = self._principal.expires_at - self._streams.tokens.clock()
        return Deadline(left, lambda: self.end("The token has expired."))

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _run(self) -> None:
        self._operation.begin()
        try:
            async with aclosing(self._operation.messages()) as messages:
                async for message in messages:
                    self._sending = True
                    await self._write(_encoded(message))
                    self._sending = self._quiet = False
                    if self._operation.is_subscription:
                        self._answered.set()
                    # Neither a source that has its events at hand nor a send that fits the buffer gives way.
                    await asyncio.sleep(0)
        finally:
            self._operation.log()

    def _wait_to_comment(self) -> None:
        seconds = self._streams.limits.keep_alive_seconds
        self._keep_alive = asyncio.get_running_loop().call_later(seconds, self._comment_if_quiet)

    def _comment_if_quiet(self) -> None:
        """Proxies give up connections that nothing comes through. What waits for a slow reader is no silence."""
        if self._quiet and not self._sending and (self._comment is None or self._comment.done()):
            self._comment = asyncio.create_task(self._write(_COMMENT), name="sse-comment")
        self._quiet = True
        self._wait_to_comment()

    async def _write(self, body: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _encoded(message: Message) -> bytes:
    match message["type"]:
        case "next":
            return b"event: next\ndata: %b\n\n" % orjson.dumps(message["payload"])
        case "error":
            return b"event: next\ndata: %b\n\n%b" % (orjson.dumps({"errors": message["payload"]}), _COMPLETE)
        case _:
            return _COMPLETE
