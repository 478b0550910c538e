"""Who publishes how long the logs of pulled users are."""

from __future__ import annotations

import pytest

from graph.social_graph import FriendshipRow
from graph.sqlite import SQLiteGraph
from signals.pulled_logs import KEY, PulledLogs
from signals.redis import SharedRedis
from workers.lease import Lease
from workers.pulled_logs import LEASE_NAME, PulledLogsPublisher

STAR = 2**62 + 1


def publisher(graph: SQLiteGraph, redis: SharedRedis) -> tuple[PulledLogsPublisher, Lease]:
    """A process's part, and its lease."""
    lease = Lease(redis, LEASE_NAME, 60)
    return PulledLogsPublisher(graph, redis, 1_000, lease), lease


async def make_star(graph: SQLiteGraph) -> None:
    """A user with 2,001 friends."""
    await graph.import_rows("friends", [FriendshipRow(STAR, friend) for friend in range(1, 2_002)])


async def test_one_publishes_and_another_follows_it(graph: SQLiteGraph, shared_redis: SharedRedis) -> None:
    await make_star(graph)
    await graph.record_play(STAR, 1)
    (first, lease), (second, _) = publisher(graph, shared_redis), publisher(graph, shared_redis)
    assert await first.publish()
    assert not await second.publish()
    logs = PulledLogs(shared_redis, 1_000)
    await logs.refresh()
    assert logs.length(STAR) == 1
    await lease.release()  # as though its process had died and the lease run out
    await graph.record_play(STAR, 2)
    assert await second.publish()
    assert not await first.publish()
    await logs.refresh()
    assert logs.length(STAR) == 2


async def test_the_content_is_another_one_only_when_a_length_is(graph: SQLiteGraph, shared_redis: SharedRedis) -> None:
    await make_star(graph)
    job, _ = publisher(graph, shared_redis)
    contents = []
    for game in (None, 1, None, None, 2):
        if game is not None:
            await graph.record_play(STAR, game)
        assert await job.publish()
        contents.append(await shared_redis.call("HGET", KEY, "content"))
    assert [contents[i] == contents[i + 1] for i in range(4)] == [False, True, True, False]
    await shared_redis.call("FLUSHALL")
    assert await job.publish()  # a Redis that lost everything is told again
    assert await shared_redis.call("HLEN", KEY) == 3


async def test_the_lease_shares_the_tables_slot(graph: SQLiteGraph, shared_redis: SharedRedis) -> None:
    with pytest.raises(ValueError, match="pulled_logs"):
        PulledLogsPublisher(graph, shared_redis, 1_000, Lease(shared_redis, "another", 60))
