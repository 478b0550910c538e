"""HTTP/1.1 whose requests have heads of bounded length, in bounded time. With httptools, uvicorn bounds neither: one
connection could fill the memory before anything of ours is asked, and idle ones could take all descriptors. Replies
that nobody reads are given up.
"""

from __future__ import annotations

import asyncio

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from resolvers.errors import LimitExceeded
from server.errors import error_body
from server.write_deadline import WriteDeadline, bound_silence

HEAD_BYTES = 65_536
HEAD_SECONDS = 10.0


class BoundedHTTP(HttpToolsProtocol):
    """A connection. Its request lines and headers together may have `HEAD_BYTES`, and `HEAD_SECONDS` to come whole.
    Bodies and the time between requests are bounded elsewhere (`Limits`, uvicorn's keep-alive).
    """

    _in_head = True
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _too_long = 0
    _write_deadline: WriteDeadline

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """The first head is due."""
        super().connection_made(transport)
        self._write_deadline = WriteDeadline()
        bound_silence(transport)
        self._begin_head()

    def data_received(self, data: bytes) -> None:
        """Give it to the parser, and refuse a head that has become too long without an end."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self._too_long = self._head_bytes
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """The first byte of a head."""
        super().on_message_begin()
        self._begin_head()

    def on_headers_complete(self) -> None:
        """A head came whole."""
        self._in_head = False
        self._end_head()
        length = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        if length > HEAD_BYTES:
            self._too_long = length
            raise ValueError  # ends the parsing: uvicorn sends its 400, which is the 431 below
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, or a head that is too long."""
        if not self._too_long:
            super().send_400_response(msg)
            return
        body = orjson.dumps({"errors": [error_body(LimitExceeded("head bytes", HEAD_BYTES, self._too_long))]})
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
            b"content-type: application/json; charset=utf-8\r\n"
            b"content-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is due any more."""
        self._end_head()
        self._write_deadline.end()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """More waits to be sent than is good: some of it must leave in time."""
        super().pause_writing()
        self._write_deadline.begin(self.transport)

    def resume_writing(self) -> None:
        """It left."""
        self._write_deadline.end()
        super().resume_writing()

    def _begin_head(self) -> None:
        self._end_head()
        self._in_head, self._head_bytes = True, 0
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
