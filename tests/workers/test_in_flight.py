"""Events in flight: what waits in the outbox is waited for, also where another row takes its place."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio

from events.event_progress import EventProgress
from graph.social_graph import OutboxRow, PlayRow
from graph.sqlite import SQLiteGraph
from tests.waiting import until
from workers import in_flight
from workers.in_flight import InFlight


class Looks:
    """The truth's outbox, and how often it was looked at."""

    def __init__(self, graph: SQLiteGraph) -> None:
        self.graph = graph
        self.count = 0

    async def outbox(self, limit: int) -> list[OutboxRow]:
        rows = await self.graph.outbox(limit)
        self.count += 1
        return rows

    async def look_twice(self) -> None:
        seen = self.count
        await until(lambda: self.count >= seen + 2)


async def test_a_log_that_grows_again_is_waited_for(graph: SQLiteGraph, events_client: redis.asyncio.Redis) -> None:
    await graph.import_rows("plays", [PlayRow(1, 1), PlayRow(2, 1)])
    looks = Looks(graph)
    flight = InFlight(looks, EventProgress(events_client))  # type: ignore[arg-type]  # of the truth it asks no more
    settling = asyncio.create_task(flight.settle())
    await looks.look_twice()
    await graph.import_rows("plays", [PlayRow(1, 2)])  # takes the place of the row that is waited for
    await graph.mark_published([row.id for row in await graph.outbox(10) if row.user_id == 2])
    await looks.look_twice()
    assert not settling.done()
    await graph.mark_published([row.id for row in await graph.outbox(10)])
    assert await settling


async def test_what_took_the_place_is_waited_for_behind_those_looked_at(
    graph: SQLiteGraph, events_client: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_flight, "ROWS_AT_ONCE", 3)
    await graph.import_rows("plays", [PlayRow(1, 1), PlayRow(2, 1)])
    looks = Looks(graph)
    flight = InFlight(looks, EventProgress(events_client))  # type: ignore[arg-type]  # as above
    settling = asyncio.create_task(flight.settle())
    await looks.look_twice()
    await graph.import_rows("plays", [PlayRow(user, 1) for user in range(3, 9)])
    await graph.import_rows("plays", [PlayRow(1, 2)])
    await graph.mark_published([(await graph.outbox(1))[0].id])  # user 2: that of user 1 stands behind all others
    await looks.look_twice()
    assert not settling.done()
    await graph.mark_published([row.id for row in await graph.outbox(10)])
    assert await settling
