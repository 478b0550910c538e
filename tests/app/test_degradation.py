"""Redis away: pages still come, say what is unknown once, and heal by themselves."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from graph.social_graph import SeenLog, TruthUnavailableError
from signals.embedded_redis import EmbeddedRedis
from tests.app.world import World, world
from tests.waiting import until

VIEWER, FRIEND = 31, 32
PAGE = """{ games(ids: ["1", "2", "3"]) {
    id name friendsPlayed friendsPlayedLabel friendsPlayedAsOf livePlayers livePlayersLabel livePlayersAsOf
} }"""


@pytest.fixture
async def own_redis(tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    """A Redis of the test's own, to stop and to start."""
    embedded = EmbeddedRedis(tmp_path)
    await embedded.start()
    yield embedded
    await embedded.stop()


async def prepared(headcount: World) -> None:
    """A friend who played games 1 and 2, and one session in game 1 that the totals show."""
    await headcount.games(3)
    await headcount.befriend(VIEWER, FRIEND)
    await headcount.play(FRIEND, 1)
    await headcount.play(FRIEND, 2)
    await headcount.ask('mutation { heartbeat(sessionId: "s", gameId: "1") { live } }', user=FRIEND)
    await headcount.resident(VIEWER)
    await headcount.drained()
    await until(lambda: headcount.application.live_totals.sessions(1) == 1)


async def test_with_redis_stopped_pages_are_whole_and_it_heals(tmp_path: Path, own_redis: EmbeddedRedis) -> None:
    async with world(tmp_path, own_redis.url, signal_deadline_ms=150) as headcount:
        await prepared(headcount)
        await own_redis.stop()

        body = await headcount.post(PAGE, user=VIEWER)
        assert "errors" not in body  # live counts are a moment old, friend counts come from the truth
        assert [game["friendsPlayed"] for game in body["data"]["games"]] == [1, 1, 0]
        assert [game["livePlayers"] for game in body["data"]["games"]] == [1, 0, 0]
        assert await headcount.play(FRIEND, 3)  # a write needs the truth alone
        assert await headcount.friends_played(VIEWER, [1, 2, 3]) == [1, 1, 1]
        refused = await headcount.post('mutation { heartbeat(sessionId: "s", gameId: "1") { live } }', user=FRIEND)
        assert refused["errors"][0]["extensions"] == {"code": "UNAVAILABLE", "signal": "livePlayers"}

        await own_redis.start()
        await headcount.drained(seconds=60)

        async def resident_again() -> bool:
            body = await headcount.post(PAGE, user=VIEWER)
            return bool(body["extensions"]["cost"] == {"redisRoundTrips": 1, "graphQueries": 0})

        await until(resident_again)
        assert await headcount.friends_played(VIEWER, [1, 2, 3]) == [1, 1, 1]
        await headcount.ask('mutation { heartbeat(sessionId: "s2", gameId: "2") { live } }', user=FRIEND)
        await until(lambda: headcount.application.live_totals.sessions(2) == 1, seconds=40)


async def test_live_counts_too_old_are_null_with_one_error(tmp_path: Path, own_redis: EmbeddedRedis) -> None:
    async with world(tmp_path, own_redis.url, stale_max_seconds=0, recount_interval_ms=60_000) as headcount:
        await headcount.games(3)
        body = await headcount.post(PAGE, user=VIEWER)
        assert [error["extensions"] for error in body["errors"]] == [{"code": "UNAVAILABLE", "signal": "livePlayers"}]
        for game in body["data"]["games"]:
            assert game["name"] == f"Game {game['id']}"
            assert game["friendsPlayed"] == 0
            assert (game["livePlayers"], game["livePlayersLabel"], game["livePlayersAsOf"]) == (None, None, None)


async def test_a_redis_that_hangs_costs_one_deadline_and_not_one_each(tmp_path: Path, own_redis: EmbeddedRedis) -> None:
    async with world(tmp_path, own_redis.url, signal_deadline_ms=150) as headcount:
        await prepared(headcount)
        process = own_redis.process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            bodies = await asyncio.gather(*(headcount.post(PAGE, user=VIEWER) for _ in range(30)))
        finally:
            process.send_signal(signal.SIGCONT)
        for body in bodies:
            assert "errors" not in body
            assert [game["friendsPlayed"] for game in body["data"]["games"]] == [1, 1, 0]


async def test_with_the_truth_away_as_well_the_last_known_page_is_shown_with_its_time(
    tmp_path: Path, own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, own_redis.url) as headcount:
        await prepared(headcount)
        known = await headcount.ask(PAGE, user=VIEWER)

        async def away(_viewer_id: int) -> dict[int, SeenLog]:
            raise TruthUnavailableError("the disk went away")

        monkeypatch.setattr(headcount.application.graph, "seen_logs", away)
        await own_redis.stop()
        body = await headcount.post(PAGE, user=VIEWER)
        assert "errors" not in body
        for now, before in zip(body["data"]["games"], known["games"], strict=True):
            assert now["friendsPlayed"] == before["friendsPlayed"]
            assert now["friendsPlayedAsOf"] == before["friendsPlayedAsOf"]

        body = await headcount.post(PAGE, user=FRIEND)  # of whom nothing is known
        assert [game["friendsPlayed"] for game in body["data"]["games"]] == [None] * 3
        assert [error["extensions"]["signal"] for error in body["errors"]] == ["friendsPlayed"]
        assert "disk" not in str(body)


async def test_what_a_refused_write_is_not_told_the_log_tells(
    tmp_path: Path, own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, own_redis.url, workers=False) as headcount:
        await headcount.games(1)

        async def away(*_arguments: object) -> None:
            raise TruthUnavailableError("truth.sqlite3: the disk is full")

        for write in ("record_play", "save_games"):
            monkeypatch.setattr(headcount.application.graph, write, away)
        await own_redis.stop()
        with structlog.testing.capture_logs() as lines:
            bodies = [
                await headcount.post('mutation { recordPlay(gameId: "1") { first } }', user=FRIEND),
                await headcount.post(
                    'mutation { saveGames(games: [{id: "2", name: "Two"}]) { id } }', user=1, scopes=["catalog:write"]
                ),
                await headcount.post('mutation { heartbeat(sessionId: "s", gameId: "1") { live } }', user=FRIEND),
                await headcount.post('mutation { endSession(sessionId: "s") { ended } }', user=FRIEND),
            ]
        assert [body["errors"][0]["extensions"]["code"] for body in bodies] == ["UNAVAILABLE"] * 4
        assert "disk" not in str(bodies)
        told = {line["event"]: line["reason"] for line in lines if "reason" in line}
        assert told["truth_unavailable"] == "truth.sqlite3: the disk is full"
        assert [line["event"] for line in lines].count("truth_unavailable") == 2
        assert str(own_redis.socket) in told["beat_not_taken"]
        assert str(own_redis.socket) in told["end_not_taken"]
