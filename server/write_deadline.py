"""What waits to be sent must move, or the connection is given up."""

from __future__ import annotations

import asyncio
import socket

#: How long a client may leave what it was sent, once buffers are full; and how long the network may leave it.
UNREAD_SECONDS = 30.0


class WriteDeadline:
    """Aborts a connection whose buffers stay full for `UNREAD_SECONDS`."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """The buffers are full."""
        self._timer = asyncio.get_running_loop().call_later(UNREAD_SECONDS, transport.abort)

    def end(self) -> None:
        """They have room again, or the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def bound_silence(transport: asyncio.Transport) -> None:
    """Let the system give up a connection whose other side acknowledges nothing, as after a cut cable. Where nothing
    else would notice, a stream of events would stay for a quarter of an hour.
    """
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6} and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_SECONDS * 1000))
