"""Filling a truth with the demo world, and leaving alone what is not one."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graph.social_graph import GameRow, GraphTotals, UserRow
from graph.sqlite import SQLiteGraph
from workers.demo_world import DemoRefusedError, demo_games, demo_rows, fill_demo_world


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[SQLiteGraph]:
    graph = SQLiteGraph(tmp_path / "truth.sqlite3")
    await graph.open()
    yield graph
    await graph.close()


async def test_an_empty_truth_is_filled_with_the_whole_world(empty: SQLiteGraph) -> None:
    world = demo_rows()
    started = time.process_time()
    assert await fill_demo_world(empty)
    # CPU and not wall: the machine of a test has other things to do.
    assert time.process_time() - started < 6
    totals = await empty.totals()
    assert totals[:4] == (2000, 300, len(world.friends), len(world.plays))
    numbers = {game.id: game.number for game in (await empty.catalogue()).changed}
    logs: dict[int, list[tuple[int, int]]] = {}
    for play in world.plays:
        logs.setdefault(play.user_id, []).append((numbers[play.game_id], play.played_at_ms or 0))
    for user_id in (1, 2, 1000, 2000):
        # The last game goes in last, so it may come late in a log: the facts are the same.
        assert sorted(await empty.played_games(user_id)) == sorted(logs[user_id])


async def test_a_demo_world_is_used_as_its_visitors_left_it(empty: SQLiteGraph) -> None:
    await fill_demo_world(empty)
    friend = (await empty.friends([1]))[1][0]
    await empty.set_friendship(1, friend, False)
    await empty.record_play(1, 300)
    await empty.record_play(5_000_000, 1)
    await empty.save_games([GameRow(1, "Renamed"), GameRow(9000, "Added")])
    before = await empty.totals()
    assert not await fill_demo_world(empty)
    assert await empty.totals() == before
    assert friend not in (await empty.friends([1]))[1]


async def test_a_start_that_was_cut_off_is_finished(empty: SQLiteGraph) -> None:
    world = demo_rows()
    await empty.import_rows("games", world.games[:-1])
    await empty.import_rows("users", world.users)
    await empty.import_rows("friends", world.friends[:700])
    await empty.import_rows("plays", [play for play in world.plays if play.game_id != 300][:900])
    assert await fill_demo_world(empty)
    assert (await empty.totals())[:4] == (2000, 300, len(world.friends), len(world.plays))
    assert not await fill_demo_world(empty)


@pytest.mark.parametrize("other", ["games", "users", "many games besides"])
async def test_another_truth_is_refused_and_left_alone(empty: SQLiteGraph, other: str) -> None:
    if other == "games":
        await empty.save_games([GameRow(1, "Some Other Game")])
    elif other == "users":
        await empty.save_users([UserRow(1, "Somebody")])
    else:
        await empty.save_games([*demo_games(), *(GameRow(number, f"Other {number}") for number in range(1000, 2000))])
    before = await empty.totals()
    with pytest.raises(DemoRefusedError, match="not the demo world's; serve without --demo") as error:
        await fill_demo_world(empty)
    assert "\n" not in str(error.value)
    assert await empty.totals() == before
    assert isinstance(before, GraphTotals)
