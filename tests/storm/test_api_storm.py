"""Everything at once: clients over HTTP, while the web process, the worker and every store are killed again and again.

The people are those of Last.fm. HEADCOUNT_STORM_SEED repeats who is struck when, and what is asked; what the machine
makes of it differs.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.tokens import Tokens
from signals.redis import SharedRedis, connect
from tests.app.world import SECRET
from tests.conftest import skip_or_fail
from tests.neo4j.server import CannotStartError, free_port, running
from tests.storm.api_storm_client import StormClient
from tests.storm.api_storm_comparison import Comparison
from tests.storm.api_storm_people import StormPeople
from tests.storm.api_storm_processes import Process, RedisServer, Victim, clean_environment, headcount
from tests.storm.api_storm_strikes import Strikes
from tests.storm.api_storm_truths import Neo4jStormTruth, SQLiteStormTruth, StormTruth, typed_settings
from tests.waiting import until
from workers.chosen_truth import choose_truth

SHORT = os.environ.get("HEADCOUNT_STORM") == "short"
STORM_SECONDS = 15.0 if SHORT else 120.0
#: Viewers who have a view before the storm begins; browsing makes more.
VIEWERS = 400 if SHORT else 1_892
CLIENTS = 20
IMPORT_SECONDS = 180.0
RECONCILE_SECONDS = 120.0
PAGES_AFTERWARDS = 100


@pytest.fixture
def folder() -> Any:
    """A folder whose name is short enough for a Unix socket."""
    folder = Path(tempfile.mkdtemp(prefix="hc-storm-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "neo4j"])
def truth(request: pytest.FixtureRequest, folder: Path) -> Any:
    """Where the truth is."""
    if request.param == "sqlite":
        yield SQLiteStormTruth(folder / "data")
        return
    try:
        with running() as server:
            yield Neo4jStormTruth(server)
    except CannotStartError as error:
        skip_or_fail(str(error))


class Storm:
    """All processes of a storm, and the clients."""

    def __init__(self, folder: Path, truth: StormTruth, people: StormPeople, seed: int) -> None:
        self.folder = folder
        self.people = people
        self.truth = truth
        self.redis = RedisServer(folder)
        settings = {"data_dir": str(folder / "data"), "redis_url": self.redis.url, "jwt_secret": SECRET.decode()}
        settings |= truth.settings()
        self.environment = clean_environment() | {f"HEADCOUNT_{name.upper()}": text for name, text in settings.items()}
        port, metrics_port = free_port(), free_port()
        self.address = f"http://127.0.0.1:{port}"
        serve = ("serve", "--no-workers", "--port", port)
        self.web = headcount("web", serve, folder, self.environment, port)
        beside = {"HEADCOUNT_METRICS_PORT": str(metrics_port)}
        self.worker = headcount("worker", ("work",), folder, self.environment | beside, metrics_port)
        self.victims: list[Victim] = [self.web, self.worker, self.redis, *truth.victims]
        self.strikes = Strikes(self.victims, random.Random(f"{seed} strikes"))
        limits = httpx.Limits(max_connections=2 * CLIENTS)
        self.http = httpx.AsyncClient(base_url=self.address, timeout=60.0, limits=limits)
        tokens = Tokens(secret=SECRET)
        sign = cache(lambda user: tokens.sign(user, ["friendships:write"], 3_600))
        self.clients = [
            StormClient(number, CLIENTS, random.Random(f"{seed} client {number}"), people, self.http, sign)
            for number in range(CLIENTS)
        ]

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

    async def begin(self, lastfm: Path) -> None:
        """Import, start everything, and have pages read until many have views."""
        files = [part for kind in ("games", "friends", "plays") for part in (f"--{kind}", lastfm / f"{kind}.tsv")]
        code, output = await self.command("import", *files, seconds=IMPORT_SECONDS)
        assert code == 0, output
        await self.redis.start()
        await asyncio.gather(self.worker.start(), self.web.start())
        await until(self._answers, seconds=60)
        viewers = iter(self.people.users[:: len(self.people.users) // VIEWERS])

        async def read(client: StormClient) -> None:
            for viewer in viewers:
                await client.read_page(viewer, [1])

        await asyncio.gather(*map(read, self.clients))

    async def rage(self, seconds: float) -> None:
        """Clients ask, and everything is struck in turn."""
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for client in self.clients:
                group.create_task(client.run(over))
            await self.strikes.run(seconds)
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

    def told(self) -> dict[str, object]:
        """What happened."""
        answered = sum((client.answered for client in self.clients), Counter())
        return {
            "answered": dict(answered),
            "unanswered": sum(client.unanswered for client in self.clients),
            "kills": dict(self.strikes.kills),
            "cut from Redis's file": self.redis.cut_bytes,
        }

    async def _answers(self) -> bool:
        return (await self.http.get("/readyz")).status_code == 200


@pytest.fixture
async def storm(folder: Path, truth: StormTruth, lastfm: Path) -> AsyncIterator[Storm]:
    """Not yet begun; every process ends with it."""
    seed = int(os.environ.get("HEADCOUNT_STORM_SEED") or random.SystemRandom().randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  # shown when it fails
    storm = Storm(folder, truth, StormPeople(lastfm), seed)
    yield storm
    await storm.close()


def faults_in(process: Process) -> list[str]:
    """What a process's log says of views that the audit had to mend, and of faults of ours."""
    words = ("view_drifted", "internal error", "job_failed", "dead_letter")
    return [
        line for line in process.log.read_text(errors="replace").splitlines() if any(word in line for word in words)
    ]


@pytest.mark.storm
@pytest.mark.timeout(900)
async def test_every_count_is_exact_after_everything_was_killed_in_turn(storm: Storm, lastfm: Path) -> None:
    await storm.begin(lastfm)
    await storm.rage(STORM_SECONDS)
    print(json.dumps(storm.told()))  # noqa: T201  # likewise
    async with AsyncExitStack() as closing:
        graph = choose_truth(typed_settings(storm.folder / "data", storm.truth))
        await graph.open()
        closing.push_async_callback(graph.close)
        redis = SharedRedis(connect(storm.redis.url, client_name="storm", timeout_seconds=10))
        closing.push_async_callback(redis.close)
        comparison = Comparison(storm.people, storm.truth, graph, redis)
        await comparison.drained()
        numbers = {game.number: game.id for game in (await graph.catalogue()).changed}
        await comparison.truth_is_as_answered(numbers)
        compared = await comparison.counts_are_exact(numbers)
        print(compared)  # noqa: T201  # likewise
        assert compared.users == 1_892
        assert compared.views > VIEWERS // 2, "most views outlived the storm"
        await storm.pages_are_exact(random.Random(0))
    code, output = await storm.command("reconcile", "--json", seconds=RECONCILE_SECONDS)
    assert code == 0, output
    report = json.loads(output)
    assert report["drift"] == 0
    assert report["users"] >= compared.views
    assert report["in_flight"] == []
    assert faults_in(storm.web) == []
    assert faults_in(storm.worker) == []
    kills = storm.strikes.kills
    assert all(kills[victim.name] >= (1 if SHORT else 3) for victim in storm.victims), kills
