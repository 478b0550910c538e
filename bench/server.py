"""The served program, end to end: import, start, memory, a play until a friend sees it, and pages a second.

    python -m bench.server [--data DIR] [--connections 16] [--seconds 8]

DIR holds `games.tsv`, `friends.tsv` and `plays.tsv`; without it the demo world is served, without its players. The load
comes from this process, on keep-alive connections of its own, to loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

PAGE = 30
VIEWERS = 200
PLAYS_TIMED = 50
QUERY = "query Page($ids: [ID!]!) { games(ids: $ids) { id name imageUrl friendsPlayed livePlayers } }"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    host: str
    port: int
    process: psutil.Process
    ready_seconds: float


class Connection:
    """One keep-alive HTTP connection, with as little of a client as answers need."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def post(self, request: bytes) -> bytes:
        """The body of the answer to a request."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if length is None or not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the server answered {head[:100]!r}")
        return await self._reader.readexactly(int(length[1]))

    def close(self) -> None:
        """Close it."""
        self._writer.close()


def http_request(token: str, query: str, variables: dict[str, object]) -> bytes:
    """A GraphQL request as it goes over the wire."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    return (
        f"POST /graphql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


@asynccontextmanager
async def serving(environment: dict[str, str], *options: str) -> AsyncIterator[Server]:
    """`headcount serve` on a free port until the end of the block."""
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", "serve", "--port", "0", *options),
        env={**environment, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None  # noqa: S101  # for mypy
        line = (await process.stdout.readline()).decode()
        ready_seconds = time.perf_counter() - begun
        address = urlsplit(line.split()[-1])
        assert address.hostname is not None and address.port is not None  # noqa: S101, PT018  # for mypy
        yield Server(address.hostname, address.port, psutil.Process(process.pid), ready_seconds)
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def headcount(environment: dict[str, str], *arguments: str | Path) -> str:
    """Run a command and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "cli", *arguments], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


async def connect(server: Server) -> Connection:
    """A connection to the server."""
    return Connection(*await asyncio.open_connection(server.host, server.port))


async def play_until_seen(
    server: Server, tokens: dict[int, str], viewer: int, friend: int, games: Sequence[int]
) -> None:
    """How long after a play is sent does the friend's page show it, asked for without pause."""
    waits = []
    one, other = await connect(server), await connect(server)
    for game in games:
        page = http_request(tokens[viewer], "query($g: ID!) { game(id: $g) { friendsPlayed } }", {"g": str(game)})
        before = json.loads(await one.post(page))["data"]["game"]["friendsPlayed"]
        play = http_request(tokens[friend], "mutation($g: ID!) { recordPlay(gameId: $g) { first } }", {"g": str(game)})
        begun = time.perf_counter()
        if not json.loads(await other.post(play))["data"]["recordPlay"]["first"]:
            continue
        while json.loads(await one.post(page))["data"]["game"]["friendsPlayed"] == before:
            pass
        waits.append((time.perf_counter() - begun) * 1e3)
    one.close()
    other.close()
    print(
        f"a play until a friend's page shows it, {len(waits)} plays: median {statistics.median(waits):.1f} ms, "
        f"longest {max(waits):.1f} ms"
    )


async def pages_a_second(server: Server, requests: Sequence[bytes], connections: int, seconds: float) -> None:
    """A closed loop on some connections, and the CPU time that the server process took for it."""
    stop_at = time.perf_counter() + seconds
    waits: list[float] = []

    async def ask(offset: int) -> None:
        connection = await connect(server)
        place = offset
        while (begun := time.perf_counter()) < stop_at:
            await connection.post(requests[place % len(requests)])
            waits.append(time.perf_counter() - begun)
            place += connections
        connection.close()

    before = sum(server.process.cpu_times()[:2])
    begun = time.perf_counter()
    await asyncio.gather(*(ask(number) for number in range(connections)))
    took = time.perf_counter() - begun
    cpu = sum(server.process.cpu_times()[:2]) - before
    waits.sort()
    print(
        f"pages of {PAGE}, resident viewers, {connections} connections: {len(waits) / took:,.0f} pages/s, "
        f"{cpu / len(waits) * 1e3:.2f} ms of server CPU a page, median {waits[len(waits) // 2] * 1e3:.1f} ms, "
        f"99 % {waits[len(waits) * 99 // 100] * 1e3:.1f} ms"
    )


async def settle(server: Server, requests: Sequence[bytes]) -> None:
    """Read every viewer's page until each comes from its view."""
    connection = await connect(server)
    for request in requests:
        asked = request.replace(b"Content-Type", b"X-Headcount-Cost: 1\r\nContent-Type")
        while json.loads(await connection.post(asked))["extensions"]["cost"]["graphQueries"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    connection.close()


async def run(data: Path | None, connections: int, seconds: float) -> None:
    """All of it, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="headcount-bench-") as folder:
        environment = {**os.environ, "HEADCOUNT_DATA_DIR": folder, "HEADCOUNT_JWT_SECRET": "b" * 32}
        options: tuple[str, ...] = ()
        if data is None:
            options = ("--demo",)
            viewers, games = list(range(1, VIEWERS + 1)), list(range(1, 301))
        else:
            begun = time.perf_counter()
            files = [part for kind in ("games", "friends", "plays") for part in (f"--{kind}", data / f"{kind}.tsv")]
            headcount(environment, "import", *files)
            print(f"import of {data.name}: {time.perf_counter() - begun:.1f} s")
            viewers, games = people(data)
        from server.tokens import Tokens

        signer = Tokens(secret=b"b" * 32)
        tokens = {viewer: signer.sign(viewer, (), 3600) for viewer in viewers}
        async with serving(environment, *options) as server:
            print(f"first start: ready after {server.ready_seconds:.2f} s")
            requests = [
                http_request(token, QUERY, {"ids": [str(games[(place * 7 + n) % len(games)]) for n in range(PAGE)]})
                for place, token in enumerate(tokens.values())
            ]
            await settle(server, requests)
            print(f"memory of the server with {len(tokens)} views: {server.process.memory_info().rss / 2**20:.0f} MiB")
        async with serving(environment, *options) as server:
            print(f"second start: ready after {server.ready_seconds:.2f} s")
            await settle(server, requests)
            viewer, friend = friends(data, list(viewers))
            for user in (viewer, friend):
                tokens.setdefault(user, signer.sign(user, (), 3600))
            await play_until_seen(server, tokens, viewer, friend, games[-PLAYS_TIMED:])
            await pages_a_second(server, requests, connections, seconds / 4)  # warm
            await pages_a_second(server, requests, connections, seconds)


def people(data: Path) -> tuple[list[int], list[int]]:
    """Some viewers with friends, and all games."""
    pairs = [line.split("\t")[:2] for line in (data / "friends.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    viewers = sorted({int(user) for pair in pairs for user in pair})[:VIEWERS]
    lines = (data / "games.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return viewers, [int(line.split("\t")[0]) for line in lines]


def friends(data: Path | None, viewers: Sequence[int]) -> tuple[int, int]:
    """Two who are friends, the first of whom has a view."""
    if data is None:
        return 1, 19  # in the demo world
    for line in (data / "friends.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        user, friend = map(int, line.split("\t")[:2])
        if user in viewers:
            return user, friend
    raise RuntimeError("nobody has a friend")


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with games.tsv, friends.tsv, plays.tsv")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    asyncio.run(run(options.data, options.connections, options.seconds))


if __name__ == "__main__":
    main()
