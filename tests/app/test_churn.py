"""Counts against plain sets after thousands of changes by many clients at once, while workers die."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from events.event import PARTITIONS
from events.redis_streams import stream_key
from tests.app.lastfm import LastFM
from tests.app.world import World, world
from tests.waiting import until

CLIENTS = 50
CHANGES = 5_000
KILLS = 10
SEED = 20_261_130


class Client:
    """One of fifty. Each has users of its own to change friendships of, so that their order is known."""

    def __init__(self, number: int, people: LastFM, games: list[int]) -> None:
        self.random = random.Random(SEED + number)
        self.users = sorted(people.friends)
        self.own = self.users[number::CLIENTS]
        self.games = games
        self.people = people

    async def change(self, headcount: World) -> None:
        """A play, a befriending or an unfriending, in the program and in the plain sets."""
        user = self.random.choice(self.own)
        what = self.random.random()
        if what < 0.6:
            game = self.random.choice(self.games)
            await headcount.play(user, game)
            self.people.play(user, game)
            return
        # Only pairs within a client's own users: nobody else changes these at the same time.
        friend = self.random.choice([other for other in self.own if other != user])
        if friend in self.people.friends[user]:
            await headcount.part(user, friend)
            self.people.part(user, friend)
        else:
            await headcount.befriend(user, friend)
            self.people.befriend(user, friend)


async def changes(headcount: World, people: LastFM, games: list[int], viewers: list[int]) -> None:
    """All clients at once; each reads a page now and then, of a viewer whose view is being changed."""

    async def run(client: Client) -> None:
        for _ in range(CHANGES // CLIENTS):
            await client.change(headcount)
            if client.random.random() < 0.2:
                await headcount.friends_played(client.random.choice(viewers), games[:30])

    await asyncio.gather(*(run(Client(number, people, games)) for number in range(CLIENTS)))


async def compare(headcount: World, people: LastFM, games: list[int], viewers: list[int]) -> None:
    """Every view against plain sets, whole, and pages of it through the API."""
    numbers = {game.number: game.id for game in (await headcount.application.graph.catalogue()).changed}
    for viewer in viewers:
        plain: dict[int, int] = {}
        for friend in people.friends[viewer]:
            for game in people.games_of[friend]:
                plain[game] = plain.get(game, 0) + 1
        page = games[:100]
        assert await headcount.friends_played(viewer, page) == [plain.get(game, 0) for game in page], viewer
        counts = await headcount.application.views.counts(viewer)
        assert counts is not None, f"the view of {viewer} is gone"
        assert {numbers[number]: count for number, count in counts.items()} == plain, viewer


@asynccontextmanager
async def worker(data_dir: Path, redis_url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`headcount work`, a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", "work"),
        env={**os.environ, "HEADCOUNT_DATA_DIR": str(data_dir), "HEADCOUNT_REDIS_URL": redis_url},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def handled(headcount: World) -> int:
    """How many events fan-out workers were given so far."""
    client = headcount.application.redis.client
    groups = [
        group
        for partition in range(PARTITIONS)
        if await client.exists(stream_key(partition))
        for group in await client.xinfo_groups(stream_key(partition))
    ]
    return sum(group["entries-read"] or 0 for group in groups)


@pytest.fixture
def people(lastfm: Path) -> LastFM:
    """The plain sets."""
    return LastFM(lastfm)


def hot_games(people: LastFM) -> list[int]:
    """The 200 games with most players: changes meet there."""
    players: dict[int, int] = {}
    for games in people.games_of.values():
        for game in games:
            players[game] = players.get(game, 0) + 1
    return sorted(players, key=lambda game: (-players[game], game))[:200]


def viewers_of(people: LastFM) -> list[int]:
    """Sixty viewers, few and many friends alike."""
    return sorted(people.friends, key=lambda user: (len(people.friends[user]), user))[::31][:60]


@pytest.mark.storm  # `make test` has the same with a worker that is killed
async def test_counts_equal_plain_sets_after_changes_by_fifty_clients(
    data_dir: Path, redis_url: str, people: LastFM
) -> None:
    games, viewers = hot_games(people), viewers_of(people)
    async with world(data_dir, redis_url) as headcount:
        await headcount.resident(*viewers)
        await changes(headcount, people, games, viewers)
        await headcount.drained(seconds=60)
        await compare(headcount, people, games, viewers)


@pytest.mark.timeout(400)
async def test_counts_equal_plain_sets_though_the_worker_is_killed_ten_times(
    data_dir: Path, redis_url: str, people: LastFM
) -> None:
    games, viewers = hot_games(people), viewers_of(people)
    async with world(data_dir, redis_url, workers=False) as headcount:
        await headcount.resident(*viewers)
        running = asyncio.create_task(changes(headcount, people, games, viewers))
        killed = 0
        while killed < KILLS:
            async with worker(data_dir, redis_url) as process:
                before = await handled(headcount)

                async def works(before: int = before) -> bool:
                    return await handled(headcount) > before

                await until(works, seconds=60)
                await asyncio.sleep(random.Random(SEED + killed).random() * 0.2)  # somewhere in its work
                process.send_signal(signal.SIGKILL)
                await process.wait()
            killed += 1
        await running
        async with worker(data_dir, redis_url):
            await headcount.drained(seconds=90)
        await compare(headcount, people, games, viewers)
