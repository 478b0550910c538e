"""The one Redis client: how it connects, and one pipeline a loop tick shared by all that is in flight.

redis-py takes a lock and a connection for each command, which costs a page more than the command itself. Callers put
their commands into `SharedRedis.call`; what arrived within one tick of the event loop goes out in one pipeline.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from contextvars import ContextVar
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import hiredis
import redis.asyncio
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

Argument: TypeAlias = bytes | str | int | float
Reply: TypeAlias = Any  # what hiredis gives: bytes, int, None, or a list of these

MAX_PIPELINE = 512


class RoundTrips:
    """Counts the Redis round trips of one request. Calls that leave in one pipeline are one round trip."""

    __slots__ = ("count", "last_flush")

    def __init__(self) -> None:
        self.count = 0
        self.last_flush = -1


#: The request on whose account calls are made; none outside a request.
round_trips: ContextVar[RoundTrips | None] = ContextVar("round_trips", default=None)


class Script:
    """A Lua script of `signals/lua`, called by its digest."""

    def __init__(self, name: str, *, read_only: bool = False, prelude: str | None = None) -> None:
        folder = Path(__file__).parent / "lua"
        self.name = name
        self.source = "".join((folder / f"{part}.lua").read_text() for part in (*(prelude or "").split(), name))
        self.sha = _digest(self.source)
        self.command = "EVALSHA_RO" if read_only else "EVALSHA"

    def behind(self, prelude: Script) -> Script:
        """The script with another before it, which may return instead of it."""
        script = copy(self)
        script.source = prelude.source + self.source
        script.sha = _digest(script.source)
        return script


def _digest(source: str) -> str:
    return hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


@lru_cache
def script(name: str, *, read_only: bool = False, prelude: str | None = None) -> Script:
    """The script in `signals/lua/<name>.lua`, behind what it shares with others in `<prelude>.lua`; read once.
    A prelude may be several, their names with spaces between.
    """
    return Script(name, read_only=read_only, prelude=prelude)


class HiredisPacking:
    """Commands packed by hiredis. redis-py's asyncio connections pack in Python, ten times slower where a script has
    many keys (131 us against 13.5 us for 36).
    """

    def pack_command(self, *args: Any) -> list[bytes]:
        """One command in Redis's protocol."""
        return [hiredis.pack_command(_words(args))]

    def pack_commands(self, commands: Iterable[Iterable[Any]]) -> list[bytes]:
        """Several commands, to be sent in one piece."""
        return [b"".join([hiredis.pack_command(_words(tuple(command))) for command in commands])]


def _words(command: tuple[Any, ...]) -> tuple[Any, ...]:
    """redis-py names a command and its subcommand in one string ("XGROUP CREATE"); Redis takes two."""
    name = command[0]
    return (*name.split(), *command[1:]) if isinstance(name, str) and " " in name else command


class TCPConnection(HiredisPacking, Connection):
    """`redis://`."""


class TLSConnection(HiredisPacking, SSLConnection):
    """`rediss://`."""


class UnixConnection(HiredisPacking, UnixDomainSocketConnection):
    """`unix://`."""


_CONNECTIONS = {Connection: TCPConnection, SSLConnection: TLSConnection, UnixDomainSocketConnection: UnixConnection}


def connect(url: str, *, client_name: str, timeout_seconds: float = 2.0) -> redis.asyncio.Redis:
    """A redis-py client with Headcount's timeouts.

    One retry and no back-off: every script here may be run twice (docs/exact-counts.md), and a caller has a deadline
    of its own.

    Args:
        url: `redis://`, `rediss://` or `unix://`.
        client_name: what `CLIENT LIST` shows.
        timeout_seconds: to connect, and for each reply.

    Raises:
        ValueError: not such an address.
    """
    client = redis.asyncio.Redis.from_url(
        url,
        client_name=client_name,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 1),
        health_check_interval=0,
        decode_responses=False,
    )
    pool = client.connection_pool
    pool.connection_class = _CONNECTIONS[pool.connection_class]
    return client


class SharedRedis:
    """Commands of many callers, one pipeline a loop tick."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self.client = client
        self._waiting: list[tuple[tuple[Argument, ...], asyncio.Future[Reply], RoundTrips | None]] = []
        self._flushes: set[asyncio.Task[None]] = set()
        self._flush_count = 0

    def call(self, *command: Argument) -> asyncio.Future[Reply]:
        """Send a command with this tick's pipeline.

        Returns:
            A future of the raw reply. It raises what redis-py raises (`redis.exceptions.RedisError`).
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((command, future, round_trips.get()))
        return future

    async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
        """Run a script, loading it where this server does not have it yet."""
        try:
            return await self.call(script.command, script.sha, len(keys), *keys, *args)
        except NoScriptError:
            # Load and run in one pipeline: the server may be another one by the time of a second trip.
            load = self.call("SCRIPT", "LOAD", script.source)
            again = self.call(script.command, script.sha, len(keys), *keys, *args)
            await load
            return await again

    async def close(self) -> None:
        """Wait for what is in flight, then close the connections."""
        while self._waiting or self._flushes:
            await asyncio.sleep(0)
            if self._flushes:
                await asyncio.gather(*self._flushes, return_exceptions=True)
        await self.client.aclose()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), MAX_PIPELINE):
            part = waiting[start : start + MAX_PIPELINE]
            self._flush_count += 1
            for _, _, trips in part:
                if trips is not None and trips.last_flush != self._flush_count:
                    trips.last_flush = self._flush_count
                    trips.count += 1
            task = asyncio.get_running_loop().create_task(self._send(part))
            self._flushes.add(task)
            task.add_done_callback(self._flushes.discard)

    async def _send(self, part: list[tuple[tuple[Argument, ...], asyncio.Future[Reply], RoundTrips | None]]) -> None:
        try:
            pipeline = self.client.pipeline(transaction=False)
            for command, _, _ in part:
                pipeline.execute_command(*command)
            replies = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            failure = error if isinstance(error, RedisError) else redis.exceptions.ConnectionError(str(error))
            replies = [failure] * len(part)
        except BaseException as error:
            for _, future, _ in part:
                if not future.done():
                    future.cancel()
            raise error
        for (_, future, _), reply in zip(part, replies, strict=True):
            if future.done():
                continue  # its caller went away; the others still get theirs
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)
