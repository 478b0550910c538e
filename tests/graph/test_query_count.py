"""Graph queries are counted on the account of the request that makes them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from graph.query_count import QueryCount, query_count
from graph.social_graph import GameRow
from graph.sqlite import SQLiteGraph


async def test_each_request_pays_for_its_own(tmp_path: Path) -> None:
    graph = SQLiteGraph(tmp_path / "truth.sqlite3")
    await graph.open()
    await graph.save_games([GameRow(1, "A")])

    async def request(queries: int) -> int:
        counter = QueryCount()
        query_count.set(counter)
        for n in range(queries):
            await (graph.seen_logs(1) if n % 2 else graph.record_play(1, 1))
        return counter.count

    assert list(await asyncio.gather(request(0), request(1), request(6))) == [0, 1, 6]
    assert query_count.get() is None
    await graph.close()
