"""WebSockets whose connections end when the other side is dead, reads nothing, or sends what makes them grow.

uvicorn closes such a connection and then waits for what is still to be sent, which nobody reads: it would stay for
good. Here it is aborted. That shows as 1006 to a client which only slept, and at that clients come back, where they
give up at uvicorn's 1011.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from server.write_deadline import WriteDeadline

#: Frames a message may come in: empty ones add nothing to its length.
MOST_FRAMES = 1_024
#: Pongs that wait to be sent to a client which pings and does not read.
MOST_UNSENT_BYTES = 1 << 20
#: How long a client may take to answer a close, or to read why it was closed while it still sends.
CLOSE_SECONDS = 5.0


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A connection; pings are uvicorn's (`ws_ping_interval`, `ws_ping_timeout`)."""

    _write_deadline: WriteDeadline
    _lingering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Nothing waits to be sent."""
        super().connection_made(transport)
        self._write_deadline = WriteDeadline()

    def keepalive_timeout(self) -> None:
        """No pong came."""
        self.pong_timer = None
        self.transport.abort()

    def pause_writing(self) -> None:
        """More waits to be sent than is good: some of it must leave in time."""
        super().pause_writing()
        self._write_deadline.begin(self.transport)

    def resume_writing(self) -> None:
        """It left."""
        self._write_deadline.end()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is due any more."""
        self._write_deadline.end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take frames, unless what came made it close."""
        if not self._lingering:
            super().data_received(data)

    def handle_ping(self) -> None:
        """Answer, while the client reads the answers."""
        super().handle_ping()
        if self.transport.get_write_buffer_size() > MOST_UNSENT_BYTES:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        """Take a part of a message, while there are not too many."""
        if len(self.frames) >= MOST_FRAMES:
            self.transport.abort()
        else:
            super().handle_cont(event)

    def handle_parser_exception(self) -> None:
        """What came is no WebSocket, or too long: say so, and let the client read that.

        A connection that is closed while the client still sends is reset, and the client reads nothing. So what it
        sends is dropped for a while.
        """
        assert self.conn.close_sent is not None  # noqa: S101  # the parser closed it
        closed = self.conn.close_sent
        self.queue.put_nowait({"type": "websocket.disconnect", "code": closed.code, "reason": closed.reason})
        self.stop_keepalive()
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = self._lingering = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._abort_later()

    async def send(self, message: Any) -> None:
        """Send as uvicorn does, and give a client that was told to close its time to do so."""
        await super().send(message)
        if self.close_timer is not None and message["type"] == "websocket.close":
            self.close_timer.cancel()
            self._abort_later()

    def _abort_later(self) -> None:
        self.close_timer = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.transport.abort)
