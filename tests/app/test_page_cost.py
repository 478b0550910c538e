"""What a page costs: read from the reply, and from what Redis itself saw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio

from tests.app.world import World, world
from tests.waiting import until

VIEWER, FRIEND = 21, 22
GAMES = 120

PAGE_FIELDS = "id name friendsPlayed friendsPlayedLabel friendsPlayedAsOf livePlayers livePlayersLabel livePlayersAsOf"


@pytest.fixture
async def quiet(tmp_path: Path, redis_url: str) -> AsyncIterator[World]:
    """A viewer with a view, and no job that would talk to Redis meanwhile."""
    async with world(tmp_path, redis_url) as prepared:
        await prepared.games(GAMES)
        await prepared.befriend(VIEWER, FRIEND)
        for game in (1, 30, 31, 100):
            await prepared.play(FRIEND, game)
        await prepared.resident(VIEWER)
        await prepared.drained()
    async with world(tmp_path, redis_url, workers=False, recount_interval_ms=60_000, stale_max_seconds=3600) as running:
        yield running


async def seen_by_redis(url: str, monitored: asyncio.Future[object], commands: list[str]) -> None:
    """Collect the commands that Redis executes, from a first PING on, until cancelled."""
    async with redis.asyncio.Redis.from_url(url) as client, client.monitor() as monitor:
        monitored.set_result(None)
        async for seen in monitor.listen():
            commands.append(seen["command"])  # noqa: PERF401  # it never ends


@pytest.mark.parametrize("length", [30, 100])
@pytest.mark.parametrize("aliases", [1, 5])
async def test_a_resident_page_is_one_command_to_redis_and_none_to_the_truth(
    quiet: World, redis_url: str, length: int, aliases: int
) -> None:
    ids = [str(id_) for id_ in range(1, length + 1)]
    parts = "".join(f"p{n}: games(ids: $ids) {{ {PAGE_FIELDS} }} " for n in range(aliases))
    query = f"query($ids: [ID!]!) {{ {parts} }}"
    commands: list[str] = []
    monitored: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    monitor = asyncio.create_task(seen_by_redis(redis_url, monitored, commands))
    await monitored
    body = await quiet.post(query, {"ids": ids}, user=VIEWER)
    assert "errors" not in body
    end = "end of what is watched"
    await quiet.application.redis.call("ECHO", end)
    await until(lambda: any(end in command for command in commands))
    monitor.cancel()
    await asyncio.gather(monitor, return_exceptions=True)

    # What a script runs inside Redis is shown by MONITOR as well, without a client's connection in front.
    sent = [command for command in commands if command.split()[0] in ("EVALSHA_RO", "EVALSHA", "EVAL")]
    assert len(sent) == 1
    assert {command.split()[0] for command in commands} <= {"EVALSHA_RO", "ECHO", "GET", "HGET", "HMGET", "SMEMBERS"}
    assert body["extensions"]["cost"] == {"redisRoundTrips": 1, "graphQueries": 0}
    for page in body["data"].values():
        assert [game["id"] for game in page if game["friendsPlayed"] == 1] == [
            id_ for id_ in ("1", "30", "31", "100") if id_ in ids
        ]
        assert all(game["name"] == f"Game {game['id']}" for game in page)


async def test_live_counts_and_names_alone_cost_nothing(quiet: World) -> None:
    body = await quiet.post('{ games(ids: ["1", "2"]) { name livePlayers livePlayersLabel } }', user=VIEWER)
    assert body["extensions"]["cost"] == {"redisRoundTrips": 0, "graphQueries": 0}


async def test_a_cold_page_reads_the_truth_once_however_many_ask(quiet: World) -> None:
    await quiet.application.views.evict([VIEWER])
    query = '{ a: games(ids: ["1", "2"]) { friendsPlayed } b: games(ids: ["31"]) { friendsPlayed } }'
    bodies = await asyncio.gather(*(quiet.post(query, user=VIEWER) for _ in range(10)))
    assert {str(body["data"]) for body in bodies} == {
        str({"a": [{"friendsPlayed": 1}, {"friendsPlayed": 0}], "b": [{"friendsPlayed": 1}]})
    }
    # One flight reads, and one more for those who came after it had begun.
    assert 1 <= sum(body["extensions"]["cost"]["graphQueries"] for body in bodies) <= 2


async def test_server_timing_says_the_same(quiet: World) -> None:
    headers = {"Authorization": f"Bearer {quiet.tokens.sign(VIEWER, (), 60)}"}
    response = await quiet.http.post("/graphql", json={"query": '{ game(id: "1") { friendsPlayed } }'}, headers=headers)
    assert 'redisRoundTrips;desc="1"' in response.headers["server-timing"]
    assert 'graphQueries;desc="0"' in response.headers["server-timing"]
    assert "extensions" not in response.json()
