"""Fan-out tells live sessions who hides or was deleted, from the truth."""

from __future__ import annotations

import pytest

from events.event import Event
from graph.sqlite import SQLiteGraph
from signals.hidden_users import HiddenUsers
from signals.live_sessions import LiveSessions
from signals.live_shards import LiveShards
from signals.redis import SharedRedis
from signals.views import FriendViews
from tests.workers.views_of_truth import build_view
from workers.fan_out import FanOut
from workers.live_visibility import LiveVisibility
from workers.outbox_relay import event_of

A, B = 101, 102
G = 7


@pytest.fixture
def visibility(graph: SQLiteGraph, shared_redis: SharedRedis) -> LiveVisibility:
    return LiveVisibility(graph, HiddenUsers(shared_redis))


@pytest.fixture
def fan_out(graph: SQLiteGraph, views: FriendViews, visibility: LiveVisibility) -> FanOut:
    return FanOut(graph, views, visibility)


async def told(graph: SQLiteGraph) -> list[Event]:
    """What the truth has to tell."""
    rows = await graph.outbox(500)
    await graph.mark_published([row.id for row in rows])
    return [event_of(row) for row in rows]


async def sessions(redis: SharedRedis) -> int:
    """Live sessions in the game, counted by a reader that has read nothing before."""
    shards = LiveShards(redis, 60)
    reading = await shards.read()
    assert not reading.not_loaded
    return int(shards.counts.totals([G])[0, 1])


async def test_events_of_users_reach_live_counts_twice_late_and_in_any_order(
    graph: SQLiteGraph, fan_out: FanOut, visibility: LiveVisibility, shared_redis: SharedRedis
) -> None:
    live = LiveSessions(shared_redis, 60)
    for user in (A, B):
        await live.beat(user, "s", G)
    await visibility.load()
    assert await sessions(shared_redis) == 2
    await graph.set_activity_hidden(A, True)
    hides = await told(graph)
    await fan_out.handle(hides)
    assert await sessions(shared_redis) == 1
    await graph.set_activity_hidden(A, False)
    shows = await told(graph)
    await fan_out.handle(shows)
    assert await sessions(shared_redis) == 2
    await fan_out.handle(shows + hides)
    assert await sessions(shared_redis) == 2
    await graph.delete_user(B)
    await fan_out.handle(await told(graph) + hides)
    assert await sessions(shared_redis) == 1


async def test_events_before_a_shard_is_loaded_are_left_to_the_load(
    graph: SQLiteGraph, fan_out: FanOut, visibility: LiveVisibility, shared_redis: SharedRedis
) -> None:
    await LiveSessions(shared_redis, 60).beat(A, "s", G)
    await graph.set_activity_hidden(A, True)
    await fan_out.handle(await told(graph))
    await visibility.load()
    assert await sessions(shared_redis) == 0


async def test_the_view_of_a_deleted_user_goes(graph: SQLiteGraph, views: FriendViews, fan_out: FanOut) -> None:
    await graph.set_friendship(A, B, True)
    for viewer in (A, B):
        await build_view(graph, views, viewer)
    await graph.set_activity_hidden(A, True)
    await fan_out.handle(await told(graph))
    assert await views.token(A) is not None
    await graph.delete_user(A)
    await fan_out.handle(await told(graph))
    assert await views.token(A) is None
    assert await views.token(B) is not None


async def test_a_shard_is_loaded_anew_before_an_event_of_its_user_is_set_aside(
    graph: SQLiteGraph, fan_out: FanOut, visibility: LiveVisibility, shared_redis: SharedRedis
) -> None:
    await LiveSessions(shared_redis, 60).beat(A, "s", G)
    await visibility.load()
    await graph.set_activity_hidden(A, True)
    await told(graph)
    await fan_out.evict_concerned(Event(1, "play", A, 0, 1, 1))
    assert await sessions(shared_redis) == 1
    await fan_out.evict_concerned(Event(2, "user", A))
    await visibility.load()
    assert await sessions(shared_redis) == 0
