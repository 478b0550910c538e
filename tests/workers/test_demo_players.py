"""Simulated players: where they play, that they move, and that they leave nothing behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from graph.sqlite import SQLiteGraph
from signals.live_sessions import Beat, LiveSessions
from signals.redis import SharedRedis
from signals.shards import SHARDS
from workers.demo_players import TICK_SECONDS, DemoPlayers
from workers.demo_world import fill_demo_world

TTL_SECONDS = 60


class Clock:
    """A clock that is set by hand, in milliseconds."""

    now_ms = 1_000_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A truth with the demo world, for tests to open."""
    path = tmp_path_factory.mktemp("demo") / "truth.sqlite3"

    async def fill() -> None:
        graph = SQLiteGraph(path)
        await graph.open()
        await fill_demo_world(graph)
        await graph.close()

    asyncio.run(fill())
    return path


@pytest.fixture
async def demo(filled: Path) -> AsyncIterator[SQLiteGraph]:
    graph = SQLiteGraph(filled)
    await graph.open()
    yield graph
    await graph.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


class NotedSessions(LiveSessions):
    """Sessions that note when each one's last beat was, and whether it was taken."""

    def __init__(self, redis: SharedRedis, clock: Clock) -> None:
        super().__init__(redis, TTL_SECONDS, clock_ms=clock)
        self.beats: dict[str, int] = {}
        self.answers: list[Beat] = []
        self._now_ms = clock

    async def beat(self, user_id: int, session_id: str, number: int) -> Beat:
        answer = await super().beat(user_id, session_id, number)
        self.beats[session_id] = self._now_ms()
        self.answers.append(answer)
        return answer

    async def end(self, user_id: int, session_id: str) -> bool:
        self.beats.pop(session_id)
        return await super().end(user_id, session_id)


@pytest.fixture
async def live(shared_redis: SharedRedis, clock: Clock) -> AsyncIterator[NotedSessions]:
    sessions = NotedSessions(shared_redis, clock)
    yield sessions
    await sessions.close()


async def counted(redis: SharedRedis) -> dict[int, int]:
    """Live sessions of each game, as Redis counts them."""
    counts: Counter[int] = Counter()
    for shard in range(SHARDS):
        fields = await redis.call("HGETALL", f"lc:{{{shard}}}")
        pairs = fields.items() if isinstance(fields, dict) else zip(fields[::2], fields[1::2], strict=True)
        counts.update({int(number): int(count.split()[0]) for number, count in pairs})  # sessions, then people
    return {number: count for number, count in counts.items() if count}


async def test_games_fill_by_popularity_and_every_session_stays_alive(
    demo: SQLiteGraph, live: NotedSessions, clock: Clock, shared_redis: SharedRedis
) -> None:
    players = DemoPlayers(live, demo, sessions=2000)
    await players.prepare()
    for tick in range(int(1.5 * TTL_SECONDS / TICK_SECONDS)):
        clock.now_ms += round(TICK_SECONDS * 1000)
        await players.tick(tick * TICK_SECONDS)
    counts = players.counts()
    assert sum(counts.values()) == 2000
    assert await counted(shared_redis) == counts
    ranked = sorted(counts.values(), reverse=True)
    assert ranked[0] > 150
    assert ranked[0] > 4 * ranked[10] > 0
    assert len(ranked) > 250
    # The games that are played most are those that the demo world's users have played most.
    games = {game.number: game.id for game in (await demo.catalogue()).changed}
    played = Counter(
        number for log in (await demo.play_logs(range(1, 2001))).values() for number in memoryview(log).cast("I")
    )
    favourites = {number for number, _ in played.most_common(10)}
    busiest = sorted(counts, key=lambda number: -counts[number])[:4]
    assert set(busiest) <= favourites <= set(games)
    # Nobody fell silent: every last beat is younger than half the time to live.
    assert len(live.beats) == 2000
    assert min(live.beats.values()) > clock.now_ms - TTL_SECONDS * 500


async def test_the_numbers_of_a_page_move_every_second(demo: SQLiteGraph, live: NotedSessions) -> None:
    players = DemoPlayers(live, demo)
    await players.prepare()
    for tick in range(14):
        await players.tick(tick * TICK_SECONDS)
    moved = []
    for second in range(5):
        before = players.counts()
        for half in range(2):
            await players.tick(8 + second + half * TICK_SECONDS)
        after = players.counts()
        page = sorted(before, key=lambda number: -before[number])[:30]
        moved.append(sum(before[number] != after.get(number, 0) for number in page))
    assert min(moved) >= 5


async def test_leaving_ends_every_session(demo: SQLiteGraph, live: NotedSessions, shared_redis: SharedRedis) -> None:
    players = DemoPlayers(live, demo, sessions=500)
    running = asyncio.create_task(players.run())
    async with asyncio.timeout(20):
        while sum((await counted(shared_redis)).values()) < 500:  # noqa: ASYNC110  # it is Redis that is waited for
            await asyncio.sleep(0.02)  # it is Redis that is waited for
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await counted(shared_redis) == {}
    # Those of the next run are other sessions: what was ended stays ended.
    live.answers.clear()
    again = DemoPlayers(live, demo, sessions=500)
    await again.prepare()
    await again.tick(0)
    assert len(live.answers) == 500
    assert all(answer.live for answer in live.answers)


async def test_plays_reach_the_friends_of_the_tours_viewer(demo: SQLiteGraph, live: NotedSessions) -> None:
    players = DemoPlayers(live, demo)
    await players.prepare()
    await players.tick(0)
    friends = (await demo.friends([1]))[1]
    before = await demo.play_logs([1, *friends])
    totals = await demo.totals()
    for _ in range(40):
        await players.play()
    after = await demo.play_logs([1, *friends])
    assert after[1] == before[1]
    assert sum(after[friend] != before[friend] for friend in friends) >= 3
    assert totals.plays < (await demo.totals()).plays <= totals.plays + 40


class AwaySessions(LiveSessions):
    """Sessions whose Redis is away for a while."""

    away = False

    async def beat(self, user_id: int, session_id: str, number: int) -> Beat:
        if self.away:
            raise RedisError("away")
        return await super().beat(user_id, session_id, number)


async def test_players_outlive_a_redis_that_is_away(demo: SQLiteGraph, shared_redis: SharedRedis, clock: Clock) -> None:
    live = AwaySessions(shared_redis, TTL_SECONDS, clock_ms=clock)
    players = DemoPlayers(live, demo, sessions=300)
    await players.prepare()
    live.away = True
    await players.tick(0)
    live.away = False
    for tick in range(1, int(TTL_SECONDS / TICK_SECONDS)):
        await players.tick(tick * TICK_SECONDS)
    assert await counted(shared_redis) == players.counts()
    await live.close()


async def test_a_catalogue_without_games_has_no_players(
    tmp_path: Path, live: NotedSessions, shared_redis: SharedRedis
) -> None:
    graph = SQLiteGraph(tmp_path / "truth.sqlite3")
    await graph.open()
    players = DemoPlayers(live, graph)
    await players.prepare()
    await players.tick(0)
    await graph.close()
    assert await counted(shared_redis) == {}
