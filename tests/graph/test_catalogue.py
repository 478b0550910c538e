"""The catalogue in memory: kept up with the truth, one query a refresh."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graph.catalogue import CatalogueMemory
from graph.query_count import QueryCount, query_count
from graph.social_graph import Game, GameRow
from graph.sqlite import SQLiteGraph


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[SQLiteGraph]:
    graph = SQLiteGraph(tmp_path / "truth.sqlite3")
    await graph.open()
    yield graph
    await graph.close()


async def test_games_by_id_number_and_name(graph: SQLiteGraph) -> None:
    await graph.save_games([GameRow(30, "straße"), GameRow(10, "Alpha"), GameRow(20, "alpha"), GameRow(5, "Zeta")])
    memory = CatalogueMemory()
    assert not memory.loaded
    assert await memory.refresh(graph)
    assert memory.loaded
    assert len(memory) == 4
    assert memory.game(30) == memory.numbered(1) == Game(30, 1, "straße")
    assert memory.game(31) is None
    assert memory.numbered(9) is None
    assert memory.ids == (5, 10, 20, 30)
    assert [game.id for game in memory.by_name] == [10, 20, 30, 5]
    assert [game.id for game in memory.search("ALPH")] == [10, 20]
    assert [game.id for game in memory.search("STRASSE")] == [30]
    assert [game.id for game in memory.search("")] == [5, 10, 20, 30]
    assert memory.search("%") == []


async def test_a_refresh_learns_what_changed(graph: SQLiteGraph) -> None:
    await graph.save_games([GameRow(1, "A"), GameRow(2, "B")])
    memory = CatalogueMemory()
    await memory.refresh(graph)
    assert not await memory.refresh(graph)
    await graph.save_games([GameRow(2, "C"), GameRow(3, "D")])
    assert await memory.refresh(graph)
    assert [game.name for game in memory.by_name] == ["A", "C", "D"]
    assert memory.search("b") == []
    assert memory.ids == (1, 2, 3)


async def test_a_refresh_is_one_query_and_a_look_up_none(graph: SQLiteGraph) -> None:
    await graph.save_games([GameRow(1, "A")])
    memory = CatalogueMemory()
    counter = QueryCount()
    query_count.set(counter)
    await memory.refresh(graph)
    assert counter.count == 1
    assert memory.game(1)
    assert memory.search("a")
    assert counter.count == 1


async def test_refreshes_at_once_end_at_the_newest(graph: SQLiteGraph) -> None:
    memory = CatalogueMemory()

    async def save(n: int) -> None:
        await graph.save_games([GameRow(n, f"{n}"), GameRow(1_000, f"{n}")])
        await memory.refresh(graph)

    await asyncio.gather(*(save(n) for n in range(1, 60)))
    await memory.refresh(graph)
    assert [memory.game(game.id) for game in (await graph.catalogue()).changed] == list(
        (await graph.catalogue()).changed
    )
    assert len(memory) == 60


async def test_another_truth_starts_the_memory_again(graph: SQLiteGraph, tmp_path: Path) -> None:
    await graph.save_games([GameRow(1, "A"), GameRow(2, "B")])
    memory = CatalogueMemory()
    await memory.refresh(graph)
    other = SQLiteGraph(tmp_path / "other.sqlite3")
    await other.open()
    await other.save_games([GameRow(2, "Z")])
    assert await memory.refresh(other)
    assert memory.truth_id == other.truth_id
    assert memory.game(1) is None
    assert memory.numbered(1) == Game(2, 1, "Z")
    assert memory.ids == (2,)
    await other.close()
