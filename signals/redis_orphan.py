"""The Redis that a killed process left behind, as its Unix socket leads to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Self

#: The process that listens at the other end: unix(7) of Linux and of macOS.
_LINUX_CREDENTIALS = struct.Struct("3i")  # process, user, group
_MACOS_LOCAL_PEERPID = 2


class Orphan:
    """A process that listens on a Unix socket, and a connection to it, which ends when the process does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.process = _listener(connection)

    @classmethod
    def at(cls, path: Path) -> Self | None:
        """Who listens there; None where nobody does.

        Raises:
            OSError: it cannot be asked.
        """
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(1.0)  # a process that hangs still has room in its queue
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except OSError:
            connection.close()
            raise
        connection.setblocking(False)
        return cls(connection)

    async def gone(self, seconds: float) -> bool:
        """Wait for its end; False where it is still there after some time."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            try:
                async with asyncio.timeout(seconds):
                    while await loop.sock_recv(self._connection, 4096):
                        pass
            except TimeoutError:
                return False
        return True

    async def send(self, command: bytes) -> None:
        """Send it a command; the answer is not waited for."""
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_sendall(self._connection, command)

    def kill(self) -> None:
        """End it where it stands.

        Raises:
            PermissionError: it belongs to another user.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()


def _listener(connection: socket.socket) -> int:
    if sys.platform == "darwin":
        return int.from_bytes(connection.getsockopt(0, _MACOS_LOCAL_PEERPID, 4), sys.byteorder)
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX_CREDENTIALS.size)
    return int(_LINUX_CREDENTIALS.unpack(credentials)[0])
