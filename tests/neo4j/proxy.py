"""A wire between driver and server that loses a commit, as networks do."""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum
from urllib.parse import urlsplit

#: A Bolt message that says COMMIT, whole in one chunk.
COMMIT = b"\x00\x02\xb0\x12\x00\x00"
DELAY_SECONDS = 0.3


class Fault(Enum):
    """What becomes of the next commit."""

    NONE = "none"
    NOT_SENT = "the connection is lost before the server hears of it"
    NOT_ANSWERED = "the server commits, and its answer is lost"
    SENT_LATE = "the driver loses the connection, and the server hears of it a moment later"


class LossyWire:
    """Listens on a port of its own and forwards to a Bolt server. An async context manager."""

    def __init__(self, uri: str) -> None:
        target = urlsplit(uri)
        self._host, self._port = target.hostname or "127.0.0.1", target.port or 7687
        self.fault = Fault.NONE
        self.lost = 0
        self.accepted = 0
        self.refusing = False
        self.uri = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> LossyWire:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.uri = f"bolt://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def alive(self) -> int:
        """Connections that were accepted and still stand."""
        return len(self._writers) // 2

    def cut(self) -> None:
        """Lose every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.refusing:
            writer.transport.abort()
            return
        self.accepted += 1
        server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, server_writer}
        answers = asyncio.create_task(_forward(server_reader, writer))
        try:
            await self._requests(reader, writer, server_reader, server_writer, answers)
        finally:
            answers.cancel()
            for each in (writer, server_writer):
                self._writers.discard(each)
                each.transport.abort()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
        answers: asyncio.Task[None],
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if COMMIT not in data or self.fault is Fault.NONE:
                    server_writer.write(data)
                    continue
                fault, self.fault = self.fault, Fault.NONE
                self.lost += 1
                answers.cancel()
                await asyncio.gather(answers, return_exceptions=True)
                if fault is Fault.NOT_SENT:
                    return
                if fault is Fault.SENT_LATE:
                    writer.transport.abort()
                    await asyncio.sleep(DELAY_SECONDS)
                server_writer.write(data)
                await server_reader.read(65_536)
                return


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.transport.abort()
