"""The processes of a storm: each can be killed at any moment, and started again on what it left behind."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from signals.embedded_redis import find_server
from signals.redis import connect
from tests.waiting import until
from tests.workers.append_only_file import newest_part

ROOT = Path(__file__).parents[2]
START_SECONDS = 90.0
STOP_SECONDS = 30.0
#: How much of the append-only file a machine without power loses: what was not yet synced (appendfsync everysec).
LOST_SECONDS = 1.0
SIZE_POLL_SECONDS = 0.05


class DiedError(Exception):
    """A process ended that nobody killed."""


class Victim(Protocol):
    """What a storm strikes."""

    name: str

    async def start(self) -> None:
        """Start, and wait until it can be used."""

    async def kill(self) -> None:
        """SIGKILL."""

    async def stop(self) -> None:
        """End it in order, if it runs."""


class Process:
    """A program with its output in a file.

    Args:
        name: of the victim.
        command: the program and its arguments.
        folder: where it runs, and where its log is.
        environment: of the process.
        port: on which it listens once it can be used; None where that does not show in this way.
    """

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str], port: int | None = None
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = command
        self._folder = folder
        self._environment = environment
        self._port = port
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if self._port is not None:
            await until(self._listens, seconds=START_SECONDS)

    async def kill(self) -> None:
        self.check()
        assert self._process is not None
        self._process.kill()
        await self._process.wait()
        self._process = None

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

    def check(self) -> None:
        """Raises DiedError where it ended by itself."""
        if self._process is not None and self._process.returncode is not None:
            last = self.log.read_text(errors="replace").splitlines()[-3:]
            raise DiedError(f"{self.name} ended with {self._process.returncode}: {' | '.join(last)}")

    async def _listens(self) -> bool:
        self.check()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.close()
        return True


def headcount(
    name: str, arguments: Sequence[object], folder: Path, environment: Mapping[str, str], port: int
) -> Process:
    """A process of the program."""
    return Process(name, [sys.executable, "-m", "cli", *map(str, arguments)], folder, environment, port)


def clean_environment() -> dict[str, str]:
    """The environment without anybody's settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADCOUNT_")}
    return {**inherited, "PYTHONPATH": str(ROOT)}


class RedisServer:
    """A Redis with an append-only file. The kernel keeps what a killed process wrote, and a machine that loses power
    does not: so every other kill, the first one too, takes the last second off the end of the file.
    """

    name = "redis"

    def __init__(self, folder: Path) -> None:
        self.url = f"unix://{folder / 'redis.sock'}"
        self.cut_bytes = 0
        self._kills = 0
        self._folder = folder
        options = {
            "port": "0",
            "unixsocket": str(folder / "redis.sock"),
            "dir": str(folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
        }
        command = [find_server(), *(part for name, value in options.items() for part in (f"--{name}", value))]
        self._process = Process(self.name, command, folder, clean_environment())
        self._sizes: deque[tuple[float, Path, int]] = deque()
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._process.start()
        await until(self._answers, seconds=START_SECONDS)
        self._watch = asyncio.create_task(self._watch_sizes(), name="append-only-file")

    async def kill(self) -> None:
        await self._stop_watching()
        now = time.monotonic()
        await self._process.kill()
        part = newest_part(self._folder)
        sizes = [size for at, path, size in self._sizes if path == part and now - at <= LOST_SECONDS]
        self._kills += 1
        if sizes and self._kills % 2 == 1:
            size = min(sizes)
            self.cut_bytes += part.stat().st_size - size
            os.truncate(part, size)  # in the midst of a command, it may be: Redis drops what is not whole
        self._sizes.clear()

    async def stop(self) -> None:
        await self._stop_watching()
        await self._process.stop()

    def check(self) -> None:
        """Raises DiedError where it ended by itself."""
        self._process.check()

    async def _answers(self) -> bool:
        self._process.check()
        client = connect(self.url, client_name="storm-start")
        try:
            await client.ping()
        except Exception:
            return False
        finally:
            await client.aclose()
        return True

    async def _watch_sizes(self) -> None:
        while True:
            part, now = newest_part(self._folder), time.monotonic()
            self._sizes.append((now, part, part.stat().st_size))
            while now - self._sizes[0][0] > LOST_SECONDS:
                self._sizes.popleft()
            await asyncio.sleep(SIZE_POLL_SECONDS)

    async def _stop_watching(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
