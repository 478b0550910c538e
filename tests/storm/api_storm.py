"""A storm: the program's processes and stores, clients that ask it over HTTP, and who is struck when."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx

from server.tokens import Tokens
from tests.app.world import SECRET
from tests.neo4j.server import free_port
from tests.storm.api_storm_client import StormClient
from tests.storm.api_storm_people import StormPeople
from tests.storm.api_storm_processes import RedisServer, Victim, clean_environment, headcount
from tests.storm.api_storm_strikes import Strikes
from tests.storm.api_storm_truths import StormTruth
from tests.waiting import until

CLIENTS = 20
IMPORT_SECONDS = 300.0
PAGES_AFTERWARDS = 100


class Storm:
    """All processes of a storm, and the clients.

    Args:
        folder: for what they keep, with a short name; the truth's data folder is `data` in it.
        truth: of the storm, running.
        people: those of the plain sets.
        seed: of who is struck when, and of what is asked.
    """

    def __init__(self, folder: Path, truth: StormTruth, people: StormPeople, seed: int) -> None:
        self.folder = folder
        self.people = people
        self.truth = truth
        self.redis = RedisServer(folder)
        settings = {"data_dir": str(folder / "data"), "redis_url": self.redis.url, "jwt_secret": SECRET.decode()}
        settings |= truth.settings()
        self.seconds: dict[str, float] = {}
        self.environment = clean_environment() | {f"HEADCOUNT_{name.upper()}": text for name, text in settings.items()}
        port, metrics_port = free_port(), free_port()
        self.address = f"http://127.0.0.1:{port}"
        serve = ("serve", "--no-workers", "--port", port)
        self.web = headcount("web", serve, folder, self.environment, port)
        beside = {"HEADCOUNT_METRICS_PORT": str(metrics_port)}
        self.worker = headcount("worker", ("work",), folder, self.environment | beside, metrics_port)
        self.victims: list[Victim] = [self.web, self.worker, self.redis, *truth.victims]
        self.strikes = Strikes(self.victims, random.Random(f"{seed} strikes"), self.answers)
        # Given up before the server closes them, so that no request meets a connection that is just being closed.
        limits = httpx.Limits(max_connections=2 * CLIENTS, keepalive_expiry=2.0)
        self.http = httpx.AsyncClient(base_url=self.address, timeout=60.0, limits=limits)
        tokens = Tokens(secret=SECRET)
        sign = cache(lambda user: tokens.sign(user, ["friendships:write"], 3_600))
        self.clients = [
            StormClient(number, CLIENTS, random.Random(f"{seed} client {number}"), people, self.http, sign)
            for number in range(CLIENTS)
        ]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note how long a part of it takes."""
        begun = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - begun, 1)

    async def command(self, *arguments: object, seconds: float) -> tuple[int, str]:
        """Run a command of the program; its exit code and what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cli", *map(str, arguments)),
            cwd=self.folder,
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await asyncio.wait_for(process.communicate(), seconds)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return process.returncode, (output or errors).decode()

    async def begin(self, lastfm: Path, viewers: int) -> None:
        """Import, start everything, and have so many read a page, whose views are built behind it."""
        files = [part for kind in ("games", "friends", "plays") for part in (f"--{kind}", lastfm / f"{kind}.tsv")]
        with self.phase("import"):
            code, output = await self.command("import", *files, seconds=IMPORT_SECONDS)
            assert code == 0, output
        with self.phase("start"):
            await self.redis.start()
            await asyncio.gather(self.worker.start(), self.web.start())
            await until(self._answers, seconds=60)
        readers = iter(self.people.users[:: len(self.people.users) // viewers])

        async def read(client: StormClient) -> None:
            for viewer in readers:
                await client.read_page(viewer, [1])

        with self.phase("first pages"):
            await asyncio.gather(*map(read, self.clients))

    async def rage(self, seconds: float, rounds: int) -> None:
        """Clients ask, and everything is struck in turn: for a time, and so often at least."""
        over = asyncio.Event()
        with self.phase("storm"):
            async with asyncio.TaskGroup() as group:
                for client in self.clients:
                    group.create_task(client.run(over))
                await self.strikes.run(seconds, rounds)
                over.set()
        for process in (self.web, self.worker, self.redis):
            process.check()

    async def pages_are_exact(self, chance: random.Random) -> None:
        """Some pages as people get them."""
        users, games = self.people.users, self.people.hot_games(100)

        async def read(client: StormClient) -> None:
            for user in chance.sample(users, PAGES_AFTERWARDS // CLIENTS):
                expected = self.people.counts(user)
                assert await client.read_page(user, games) == [expected[game] for game in games], user

        await asyncio.gather(*map(read, self.clients))

    async def close(self) -> None:
        """End every process that this storm started, but for the truth's server."""
        await self.http.aclose()
        await asyncio.gather(*(victim.stop() for victim in (self.web, self.worker, self.redis)))

    def answers(self) -> int:
        """How many answers clients have had."""
        return sum(client.answered.total() for client in self.clients)

    def told(self) -> dict[str, object]:
        """What happened."""
        answered = sum((client.answered for client in self.clients), Counter())
        return {
            "answered": dict(answered),
            "unanswered": sum(client.unanswered for client in self.clients),
            "kills": dict(self.strikes.kills),
            "cut from Redis's file": self.redis.cut_bytes,
            "seconds": self.seconds,
        }

    async def _answers(self) -> bool:
        return (await self.http.get("/readyz")).status_code == 200
