"""The outbox in SQLite: an import tells once of a log that grows batch by batch; no row with a mark is touched."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graph.social_graph import ChangeKind, GameRow, OutboxRow, PlayRow
from graph.sqlite import SQLiteGraph


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[SQLiteGraph]:
    graph = SQLiteGraph(tmp_path / "truth.sqlite3")
    await graph.open()
    await graph.save_games([GameRow(game, None) for game in range(1, 10)])
    yield graph
    await graph.close()


async def grow(graph: SQLiteGraph, game: int, *users: int) -> list[OutboxRow]:
    """Import a play of each user; returns what waits then."""
    await graph.import_rows("plays", [PlayRow(user, game) for user in users])
    return await graph.outbox(100)


def told(rows: list[OutboxRow]) -> list[tuple[ChangeKind, int]]:
    return [(row.kind, row.user_id) for row in rows]


async def test_a_log_that_grows_in_many_batches_waits_once_and_last(graph: SQLiteGraph) -> None:
    for game in range(1, 6):
        rows = await grow(graph, game, 1, 2)
    await graph.record_play(2, 7)
    assert [row.id for row in await grow(graph, 6, 3)][:2] == [row.id for row in rows]
    rows = await grow(graph, 8, 1)
    assert told(rows) == [(ChangeKind.LOG, 2), (ChangeKind.PLAY, 2), (ChangeKind.LOG, 3), (ChangeKind.LOG, 1)]
    assert len({row.id for row in rows}) == 4
    assert (await graph.totals()).outbox == 4


async def test_a_batch_that_lets_no_log_grow_replaces_nothing(graph: SQLiteGraph) -> None:
    rows = await grow(graph, 1, 1)
    assert await grow(graph, 1, 1) == rows


async def test_the_row_that_takes_the_place_is_another_one(graph: SQLiteGraph) -> None:
    """A relay that has read the old one and marks it afterwards does not mark the new one."""
    (old,) = await grow(graph, 1, 1)
    (new,) = await grow(graph, 2, 1)
    assert new.id > old.id
    await graph.mark_published([old.id])
    await graph.acknowledge([old.id])
    assert await graph.outbox(10) == [new]
    assert await graph.unacknowledge_after(0) == 0
    await graph.mark_published([new.id])
    await graph.acknowledge([new.id])
    assert await graph.unacknowledge_after(1) == 1
    assert await graph.outbox(10) == [new]


async def test_rows_that_were_published_acknowledged_or_taken_back_stay(graph: SQLiteGraph) -> None:
    (published,) = await grow(graph, 1, 1)
    await graph.mark_published([published.id])
    (early,) = await grow(graph, 2, 1)
    await graph.acknowledge([early.id])  # by a worker who is faster than the relay's mark
    third = (await grow(graph, 3, 1))[-1]
    assert await graph.outbox(10) == [early, third]
    assert await graph.unacknowledge_after(0) == 2
    fourth = (await grow(graph, 4, 1))[-1]
    assert await graph.outbox(10) == [published, early, fourth]


async def test_a_waiting_row_is_found_by_its_index(graph: SQLiteGraph, tmp_path: Path) -> None:
    await grow(graph, 1, 1)
    with sqlite3.connect(tmp_path / "truth.sqlite3") as connection:
        plan = connection.execute(
            """
            EXPLAIN QUERY PLAN SELECT id FROM outbox WHERE user_id = 1 AND kind = 'log'
                AND published_at_ms IS NULL AND acknowledged_batch IS NULL AND taken_back IS NULL
            """
        ).fetchall()
    connection.close()
    assert "outbox_waiting_logs" in plan[0][3]
