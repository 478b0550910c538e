"""The Last.fm people: every expected page exact, cold, resident, after a restart, and after Redis lost everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.world import World, world
from tests.waiting import until

USERS, FRIENDSHIPS, PLAYS, GAMES = 1_892, 12_717, 92_834, 17_632


@pytest.fixture(scope="module")
def expected(lastfm: Path) -> list[tuple[int, dict[int, int]]]:
    """Sixty pages: the viewer, and the friend count of each of thirty games."""
    lines = (lastfm / "expected_pages.jsonl").read_text().splitlines()
    pages = [json.loads(line) for line in lines]
    assert len(pages) == 60
    return [(int(page["user"]), {int(game): count for game, count in page["games"].items()}) for page in pages]


async def check(headcount: World, expected: list[tuple[int, dict[int, int]]]) -> None:
    """Every page is what the data says."""
    for viewer, counts in expected:
        assert await headcount.friends_played(viewer, list(counts)) == list(counts.values()), viewer


async def test_every_page_is_exact(data_dir: Path, redis_url: str, expected: list[tuple[int, dict[int, int]]]) -> None:
    viewers = [viewer for viewer, _ in expected]
    async with world(data_dir, redis_url) as headcount:
        totals = await headcount.application.graph.totals()
        assert (totals.users, totals.games, totals.friendships, totals.plays) == (USERS, GAMES, FRIENDSHIPS, PLAYS)
        assert await headcount.application.views.resident_count() == 0
        await check(headcount, expected)  # cold
        await headcount.resident(*viewers)
        await check(headcount, expected)
        await headcount.drained(seconds=60)  # what the import told has reached the views as well
        await check(headcount, expected)

    async with world(data_dir, redis_url) as headcount:  # a restart: the views are still there
        assert await headcount.application.views.resident_count() == len(set(viewers))
        await check(headcount, expected)

        await headcount.application.redis.call("FLUSHALL")
        await check(headcount, expected)

        # What was built before the loss was noticed is emptied once more, so it may take a second reading of all.
        async def all_resident_again() -> bool:
            await headcount.resident(*viewers)
            return await headcount.application.views.resident_count() == len(set(viewers))

        await until(all_resident_again)
        await check(headcount, expected)
