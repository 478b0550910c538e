"""People and the players of the day through the API: what counts once, what a page pays for them, what it is told."""

from __future__ import annotations

from pathlib import Path

from tests.app.privacy import hide
from tests.app.test_live import beat, end
from tests.app.world import World, world
from tests.waiting import until

PAGE = '{ games(ids: ["1", "2"]) { livePlayers livePeople uniquePlayersToday } }'
A, B, C = 41, 42, 43


async def shows(headcount: World, *games: tuple[int, int, int]) -> None:
    """Wait until games 1, 2 … have so many live players, people, and players of the day."""

    async def shown() -> bool:
        body = await headcount.post(PAGE)
        found = [(g["livePlayers"], g["livePeople"], g["uniquePlayersToday"]) for g in body["data"]["games"]]
        return found == list(games)

    await until(shown)


async def test_two_devices_are_one_person_who_played_what_they_played_today(headcount: World) -> None:
    await headcount.games(2)
    await beat(headcount, A, "phone", 1)
    await beat(headcount, A, "desk", 1)
    await beat(headcount, B, "s", 1)
    await shows(headcount, (3, 2, 2), (0, 0, 0))
    await beat(headcount, A, "desk", 2)
    await shows(headcount, (2, 2, 2), (1, 1, 1))
    await end(headcount, A, "phone")
    await end(headcount, B, "s")
    await shows(headcount, (0, 0, 2), (1, 1, 1))
    await beat(headcount, B, "next-launch", 1)
    await shows(headcount, (1, 1, 2), (1, 1, 1))


async def test_who_hides_is_in_none_of_them(headcount: World) -> None:
    await headcount.games(2)
    await beat(headcount, C, "s", 2)
    await hide(headcount, A)
    await headcount.drained()
    await beat(headcount, A, "s", 1)
    await beat(headcount, B, "s", 1)
    await shows(headcount, (1, 1, 1), (1, 1, 1))
    await hide(headcount, A, hidden=False)
    await headcount.drained()
    await beat(headcount, A, "s", 1)
    await shows(headcount, (2, 2, 2), (1, 1, 1))


async def test_they_cost_a_page_nothing(headcount: World) -> None:
    await headcount.games(2)
    await beat(headcount, A, "s", 1)
    await shows(headcount, (1, 1, 1), (0, 0, 0))
    body = await headcount.post(PAGE)
    assert body["extensions"]["cost"] == {"redisRoundTrips": 0, "graphQueries": 0}


async def test_unknown_is_null_with_one_error_for_each_signal(tmp_path: Path, redis_url: str) -> None:
    """Redis forgets who played today: that is unknown until midnight, live counts only until the next heartbeats."""
    async with world(tmp_path, redis_url, session_ttl_seconds=5) as headcount:
        await headcount.games(2)
        await beat(headcount, A, "s", 1)
        await shows(headcount, (1, 1, 1), (0, 0, 0))
        await headcount.application.redis.call("FLUSHALL")
        totals = headcount.application.live_totals
        await until(lambda: not totals.known)
        body = await headcount.post(PAGE)
        unknown = [error["extensions"] for error in body["errors"]]
        assert {"code": "UNAVAILABLE", "signal": "uniquePlayersToday"} in unknown
        assert len(unknown) == 2 - totals.known

        async def known_again() -> bool:  # with every heartbeat: the shards are emptied once more
            await beat(headcount, B, "s", 1)
            return totals.sessions(1) == 1

        await until(known_again)
        body = await headcount.post(PAGE)
        assert [error["extensions"] for error in body["errors"]] == [
            {"code": "UNAVAILABLE", "signal": "uniquePlayersToday"}
        ]
        assert body["data"]["games"] == [
            {"livePlayers": 1, "livePeople": 1, "uniquePlayersToday": None},
            {"livePlayers": 0, "livePeople": 0, "uniquePlayersToday": None},
        ]
