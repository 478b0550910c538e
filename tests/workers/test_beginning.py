"""How a process begins when the truth goes away in the middle of it."""

from __future__ import annotations

import asyncio

import redis.asyncio

from events.publisher import Publisher
from graph.catalogue import CatalogueMemory
from graph.social_graph import TruthUnreachableError
from graph.sqlite import SQLiteGraph
from signals.catalogue_copy import CatalogueCopy
from signals.markers import ShardMarkers
from signals.redis import SharedRedis
from workers.beginning import Beginning
from workers.markers import Markers


async def test_what_follows_the_opening_is_done_once_each_when_the_truth_goes_away_in_between(
    graph: SQLiteGraph, shared_redis: SharedRedis, events_client: redis.asyncio.Redis
) -> None:
    catalogue, done = CatalogueMemory(), list[str]()
    away = [TruthUnreachableError("away"), TruthUnreachableError("away")]

    async def first() -> None:
        done.append("first")

    async def second() -> None:
        if away:
            raise away.pop()
        done.append("second")

    shard_markers = ShardMarkers(shared_redis)
    markers = Markers(graph, shared_redis, shard_markers, Publisher(events_client, lambda: graph.truth_id))
    beginning = Beginning(graph, markers, shard_markers, catalogue, CatalogueCopy(shared_redis), [first, second])
    await beginning.start()
    assert done == ["first"]
    assert not catalogue.loaded
    began = asyncio.Event()

    async def job() -> None:
        began.set()

    waiting = asyncio.ensure_future(beginning.before(job)())
    await beginning.run()
    await waiting
    assert began.is_set()
    assert done == ["first", "second"]
    assert catalogue.loaded
