"""The whole application on a Redis that forgets, and beside a truth that is away or another."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app import Application
from graph.social_graph import TruthUnreachableError
from graph.sqlite import SQLiteGraph
from signals.embedded_redis import EmbeddedRedis
from signals.redis import SharedRedis
from tests.app.world import World, world
from tests.storm.redis_snapshot import RedisSnapshot
from tests.waiting import until
from tests.workers.append_only_file import boundaries, cut, newest_part

USERS = range(1, 21)
GAMES = 12
SEED = 20_261_201


class People:
    """The plain sets."""

    def __init__(self) -> None:
        self.random = random.Random(SEED)
        self.friends: dict[int, set[int]] = {user: set() for user in USERS}
        self.played: dict[int, set[int]] = {user: set() for user in USERS}

    async def change(self, headcount: World, changes: int) -> None:
        """Some changes, in the program and in the sets."""
        for _ in range(changes):
            user, other = self.random.sample(list(USERS), 2)
            if self.random.random() < 0.6:
                game = self.random.randint(1, GAMES)
                await headcount.play(user, game)
                self.played[user].add(game)
            elif other in self.friends[user]:
                await headcount.part(user, other)
                self.friends[user].discard(other)
                self.friends[other].discard(user)
            else:
                await headcount.befriend(user, other)
                self.friends[user].add(other)
                self.friends[other].add(user)

    def counts(self, user: int) -> dict[int, int]:
        """The truth of a viewer."""
        return dict(Counter(game for friend in self.friends[user] for game in self.played[friend]))

    async def wrong(self, headcount: World) -> dict[int, object]:
        """Whose view is not what the sets say. Numbers of games are their ids here."""
        wrong: dict[int, object] = {}
        for user in USERS:
            counts = await headcount.application.views.counts(user)
            if counts is not None and counts != self.counts(user):
                wrong[user] = counts
        return wrong

    async def begin(self, headcount: World) -> None:
        """Games, friends, plays, a view for everybody."""
        await headcount.games(GAMES)
        await self.change(headcount, 60)
        await headcount.resident(*USERS)
        await exact(headcount, self)


async def settled(headcount: World) -> bool:
    """Whether everything is told, handled, and known to be in every shard."""
    application = headcount.application
    await headcount.drained()
    last = await application.graph.acknowledged_batch()
    markers = await application.shard_markers.read()
    return {marker.batch for marker in markers.values()} == {last}


async def exact(headcount: World, people: People) -> None:
    """Wait until nothing is missing; then every view and every page is what the sets say."""

    async def quiet() -> bool:
        return await settled(headcount) and await people.wrong(headcount) == {}

    try:
        await until(quiet, seconds=30)
    except TimeoutError:
        raise AssertionError(f"wrong for good: {await people.wrong(headcount)}") from None
    for user in USERS:
        expected = people.counts(user)
        page = await headcount.friends_played(user, range(1, GAMES + 1))
        assert page == [expected.get(game, 0) for game in range(1, GAMES + 1)]


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedRedis]:
    """A Redis of the test's own, to be stopped."""
    folder = Path(tempfile.mkdtemp(prefix="hc-"))
    server = EmbeddedRedis(folder)
    await server.start()
    yield server
    await server.stop()
    shutil.rmtree(folder, ignore_errors=True)


async def residents(headcount: World) -> set[int]:
    return {user for user in USERS if await headcount.application.views.counts(user) is not None}


async def test_an_append_only_file_cut_by_hand(tmp_path: Path, server: EmbeddedRedis) -> None:
    people = People()
    async with world(tmp_path, server.url) as headcount:
        await people.begin(headcount)
        part = newest_part(server.folder)
        size = part.stat().st_size
        before = await headcount.application.graph.acknowledged_batch()
        await people.change(headcount, 40)
        await exact(headcount, people)
        assert await headcount.application.graph.acknowledged_batch() > before, "acknowledged, and about to be lost"

        await server.stop()
        assert cut(part, size) > 0
        await server.start()
        await until(lambda: _answers(headcount.application.redis))
        await exact(headcount, people)
        assert await residents(headcount) == set(USERS), "views were mended, not built again"
        await people.change(headcount, 20)
        await exact(headcount, people)


async def test_an_append_only_file_cut_while_nothing_else_runs(tmp_path: Path, server: EmbeddedRedis) -> None:
    """The whole program starts again on what is left, at several places of the file."""
    people = People()
    async with world(tmp_path, server.url) as headcount:
        await people.begin(headcount)
        size = newest_part(server.folder).stat().st_size
        await people.change(headcount, 40)
        await exact(headcount, people)
    await server.stop()
    part = newest_part(server.folder)
    ends = [end for end in boundaries(part) if end >= size]
    for place in (len(ends) * 3 // 4, len(ends) // 2, len(ends) // 5):
        cut(part, ends[place])
        await server.start()
        async with world(tmp_path, server.url) as headcount:
            assert await residents(headcount) == set(USERS)
            await exact(headcount, people)
            assert await residents(headcount) == set(USERS)
        await server.stop()
        part = newest_part(server.folder)
        ends = [end for end in boundaries(part) if end >= size]


async def _answers(redis: SharedRedis) -> bool:
    try:
        await redis.call("PING")
    except Exception:
        return False
    return True


async def test_rewinds_that_nobody_saw_while_everybody_changes_something(tmp_path: Path, redis_url: str) -> None:
    people = People()
    async with world(tmp_path, redis_url) as headcount:
        await people.begin(headcount)
        for _ in range(5):
            snapshot = await RedisSnapshot.take(headcount.application.redis)
            await people.change(headcount, 15)
            await snapshot.restore(headcount.application.redis)  # under way, acknowledged, published: all at once
            await people.change(headcount, 5)
            await exact(headcount, people)
        assert await residents(headcount) == set(USERS)


async def test_a_worker_killed_between_stamp_and_acknowledgement_in_redis(tmp_path: Path, redis_url: str) -> None:
    """SIGKILL in the moment after the truth was told and before the log and the shards were."""
    people = People()
    program = (
        "import asyncio, os, signal, sys\n"
        "from graph.sqlite import SQLiteGraph\n"
        "stamp = SQLiteGraph.acknowledge\n"
        "async def acknowledge(self, row_ids):\n"
        "    await stamp(self, row_ids)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "SQLiteGraph.acknowledge = acknowledge\n"
        "from cli import main\n"
        "main(['work'])\n"
    )
    environment = {**os.environ, "HEADCOUNT_DATA_DIR": str(tmp_path), "HEADCOUNT_REDIS_URL": redis_url}
    async with world(tmp_path, redis_url, workers=False) as headcount:
        await headcount.games(GAMES)
        await people.change(headcount, 60)
        await headcount.resident(*USERS)
        for _ in range(3):
            await people.change(headcount, 5)
            killed = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, env=environment, stderr=asyncio.subprocess.DEVNULL
            )
            assert await asyncio.wait_for(killed.wait(), 60) == -signal.SIGKILL
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cli", "work"), env=environment, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            await exact(headcount, people)
        finally:
            worker.terminate()
            await worker.wait()


async def test_another_truth_behind_the_same_redis(tmp_path: Path, redis_url: str) -> None:
    first, second = People(), People()
    second.random.seed(7)
    async with world(tmp_path / "first", redis_url) as headcount:
        await first.begin(headcount)
    async with world(tmp_path / "second", redis_url) as headcount:
        assert await residents(headcount) == set()
        await second.begin(headcount)
    async with world(tmp_path / "first", redis_url) as headcount:  # and back: a restored older one is another too
        assert await residents(headcount) == set()
        await headcount.resident(*USERS)
        await exact(headcount, first)


async def test_a_program_whose_truth_is_replaced_ends_with_one_line(tmp_path: Path, redis_url: str) -> None:
    graph = SQLiteGraph(tmp_path / "truth.sqlite3")
    await graph.open()
    await graph.close()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", "work"),
        env={**os.environ, "HEADCOUNT_DATA_DIR": str(tmp_path), "HEADCOUNT_REDIS_URL": redis_url},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    while b"markers_taken_over" not in await asyncio.wait_for(process.stderr.readline(), 30):
        pass
    connection = sqlite3.connect(tmp_path / "truth.sqlite3")
    connection.execute("UPDATE truth SET id = 'restored'")
    connection.commit()
    connection.close()
    _, told = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 1
    assert b"another truth stands where this program opened one" in told.splitlines()[-1], told


class DistantGraph(SQLiteGraph):
    """A truth that does not answer for a while."""

    away = True

    async def open(self) -> None:
        if self.away:
            raise TruthUnreachableError("bolt://truth: nobody listens")
        await super().open()


async def test_a_start_without_the_truth_serves_what_redis_knows(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = People()
    async with world(tmp_path, redis_url) as headcount:
        await people.begin(headcount)
        beat = 'mutation { heartbeat(sessionId: "s", gameId: "1") { live } }'
        await headcount.ask(beat, user=1)
        await until(lambda: headcount.application.live_totals.sessions(1) == 1)
        await headcount.application.beginning.refresh_catalogue()

    monkeypatch.setattr("app.choose_truth", lambda settings, **_: DistantGraph(settings.data_dir / "truth.sqlite3"))
    monkeypatch.setattr(DistantGraph, "away", True)
    async with world(tmp_path, redis_url) as headcount:
        ready: dict[str, Any] = (await headcount.http.get("/readyz")).json()
        assert (ready["status"], "truth" in ready["degraded"]) == ("ready", True)
        expected = people.counts(2)
        query = "query($ids: [ID!]!) { games(ids: $ids) { id name friendsPlayed livePlayers } }"
        await until(lambda: headcount.application.live_totals.known)
        page = await headcount.ask(query, {"ids": [str(game) for game in range(1, GAMES + 1)]}, user=2)
        assert [(game["name"], game["friendsPlayed"]) for game in page["games"]] == [
            (f"Game {game}", expected.get(game, 0)) for game in range(1, GAMES + 1)
        ]
        assert page["games"][0]["livePlayers"] == 1
        refused = await headcount.post('mutation { recordPlay(gameId: "1") { recorded } }', user=2)
        assert refused["errors"][0]["extensions"]["code"] == "UNAVAILABLE"

        monkeypatch.setattr(DistantGraph, "away", False)
        await until(lambda: headcount.application.beginning.truth_is_open)
        await people.change(headcount, 10)
        await exact(headcount, people)

        async def healed() -> bool:
            degraded: list[str] = (await headcount.http.get("/readyz")).json()["degraded"]
            return degraded == []

        await until(healed)


async def test_a_start_without_truth_and_without_a_copy_is_not_ready_until_the_truth_answers(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.choose_truth", lambda settings, **_: DistantGraph(settings.data_dir / "truth.sqlite3"))
    monkeypatch.setattr(DistantGraph, "away", True)
    async with world(tmp_path, redis_url) as headcount:
        response = await headcount.http.get("/readyz")
        assert response.status_code == 503
        assert "truth" in response.json()["degraded"]
        monkeypatch.setattr(DistantGraph, "away", False)

        async def ready() -> bool:
            return (await headcount.http.get("/readyz")).status_code == 200

        await until(ready)
        assert isinstance(headcount.application, Application)
