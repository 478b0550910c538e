"""Fan-out: after the events of a change, every view says what the truth says, however they are dealt out."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Collection
from pathlib import Path

import pytest

from events.event import Event
from graph.social_graph import FriendshipRow, PlayRow
from graph.sqlite import SQLiteGraph
from graph.visibility import Visibility
from signals.views import BuildStatus, FriendViews, Update
from tests.workers.conftest import GAMES
from tests.workers.views_of_truth import build_view, finish_build, true_counts
from workers.fan_out import FanOut
from workers.outbox_relay import event_of

A, B, C, D = 101, 102, 103, 104


@pytest.fixture
def fan_out(graph: SQLiteGraph, views: FriendViews) -> FanOut:
    return FanOut(graph, views)


async def told(graph: SQLiteGraph) -> list[Event]:
    """What the truth has to tell since it was asked last."""
    events: list[Event] = []
    while rows := await graph.outbox(500):
        events += [event_of(row) for row in rows]
        await graph.mark_published([row.id for row in rows])
    return events


async def befriend(graph: SQLiteGraph, *pairs: tuple[int, int]) -> None:
    for user_id, friend_id in pairs:
        await graph.set_friendship(user_id, friend_id, True)


async def test_a_play_is_counted_by_friends_and_not_by_the_player(
    graph: SQLiteGraph, views: FriendViews, fan_out: FanOut
) -> None:
    await befriend(graph, (A, B), (A, C), (B, D))
    for viewer in (A, B, C, D):
        await build_view(graph, views, viewer)
    await told(graph)
    await graph.record_play(A, 1)
    await graph.record_play(B, 1)
    await fan_out.handle(await told(graph))
    number = (await graph.catalogue()).changed[0].number
    assert await views.counts(A) == {number: 1}
    assert await views.counts(B) == {number: 1}
    assert await views.counts(C) == {number: 1}
    assert await views.counts(D) == {number: 1}


async def test_events_may_come_twice_in_any_order_and_together(
    graph: SQLiteGraph, views: FriendViews, fan_out: FanOut
) -> None:
    await befriend(graph, (A, B), (A, C), (B, C))
    for viewer in (A, B, C):
        await build_view(graph, views, viewer)
    for game in range(1, 11):
        await graph.record_play(A, game)
        await graph.record_play(B, GAMES + 1 - game)
    await graph.set_friendship(A, B, False)
    await befriend(graph, (A, D), (A, B))
    events = await told(graph)
    shuffled = events * 2
    random.Random(1).shuffle(shuffled)
    await fan_out.handle(shuffled[:30])
    await fan_out.handle(shuffled[30:])
    await fan_out.handle(shuffled[:30])
    for viewer in (A, B, C):
        assert await views.counts(viewer) == await true_counts(graph, viewer)


async def test_a_gap_is_closed_from_the_log(graph: SQLiteGraph, views: FriendViews, fan_out: FanOut) -> None:
    await befriend(graph, (A, B))
    await build_view(graph, views, A)
    await told(graph)
    for game in (3, 2, 1):
        await graph.record_play(B, game)
    lost, _, last = await told(graph)
    await fan_out.handle([last])
    assert await views.counts(A) == await true_counts(graph, A) != {}
    await fan_out.handle([lost])
    assert await views.counts(A) == await true_counts(graph, A)


async def test_long_histories_are_gained_when_two_become_friends_and_lost_when_they_part(
    graph: SQLiteGraph, views: FriendViews, fan_out: FanOut
) -> None:
    for game in range(1, 31):
        await graph.record_play(A, game)
        await graph.record_play(B, game + 10)
    await befriend(graph, (A, C))
    for viewer in (A, B, C):
        await build_view(graph, views, viewer)
    await befriend(graph, (A, B))
    await fan_out.handle(await told(graph))
    assert len(await views.counts(A) or {}) == 30
    assert await views.counts(A) == await true_counts(graph, A)
    assert await views.counts(B) == await true_counts(graph, B)
    await graph.set_friendship(B, A, False)
    await fan_out.handle(await told(graph))
    assert await views.counts(A) == {}
    assert await views.counts(B) == {}
    assert await views.counts(C) == await true_counts(graph, C) != {}


async def test_an_import_reaches_the_views_that_exist(graph: SQLiteGraph, views: FriendViews, fan_out: FanOut) -> None:
    await build_view(graph, views, A)
    await graph.import_rows("friends", [FriendshipRow(A, B), FriendshipRow(C, A), FriendshipRow(B, C)])
    await graph.import_rows("plays", [PlayRow(user, game) for user in (A, B, C) for game in (1, 2, user % 3 + 3)])
    await fan_out.handle(await told(graph))
    assert await views.counts(A) == await true_counts(graph, A) != {}
    assert await views.token(B) is None
    assert await views.token(C) is None


async def test_a_change_met_while_a_view_is_built_is_in_it(
    graph: SQLiteGraph, views: FriendViews, fan_out: FanOut
) -> None:
    await befriend(graph, (A, B))
    token = await views.claim(A, "nonce")
    assert token is not None
    await told(graph)
    await graph.record_play(B, 1)
    await befriend(graph, (A, C))
    await graph.import_rows("plays", [PlayRow(C, 2), PlayRow(B, 3)])
    await fan_out.handle(await told(graph))
    await finish_build(graph, views, A, token)
    assert await views.counts(A) == await true_counts(graph, A) != {}


async def test_a_change_is_in_a_view_whose_builder_had_read_too_early_and_ends_too_soon_to_be_told(
    graph: SQLiteGraph, views: FriendViews, fan_out: FanOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    await graph.record_play(B, 1)
    await told(graph)
    token = await views.claim(A, "nonce")
    assert token is not None
    await befriend(graph, (A, B))
    read_visibilities = graph.visibilities
    builds = 0

    async def visibilities_while_a_build_ends(viewer_id: int, owner_ids: Collection[int]) -> dict[int, Visibility]:
        nonlocal builds
        builds += 1
        if builds == 1:
            assert (await views.build(A, token, "next", {}, {})).status == BuildStatus.BUILT  # no friends, it had read
        return await read_visibilities(viewer_id, owner_ids)

    monkeypatch.setattr(graph, "visibilities", visibilities_while_a_build_ends)
    await fan_out.handle(await told(graph))
    assert builds == 2
    assert await views.counts(A) == await true_counts(graph, A) != {}


async def test_the_log_is_read_after_an_edge_that_another_worker_had_brought(
    graph: SQLiteGraph, views: FriendViews, fan_out: FanOut
) -> None:
    await build_view(graph, views, A)
    await graph.record_play(B, 1)
    await told(graph)
    await befriend(graph, (A, B))
    edge_events = await told(graph)
    # A worker dies between EDGE and CATCHUP.
    token = await views.token(A)
    version, state = (await graph.visibilities(A, [B]))[B]
    await views.edge(A, B, token, version, state)
    assert await views.counts(A) == {}
    await fan_out.handle(edge_events)
    assert await views.counts(A) == await true_counts(graph, A) != {}


async def test_those_who_hide_block_or_leave_are_not_counted_and_those_who_come_back_are(
    graph: SQLiteGraph, views: FriendViews, fan_out: FanOut
) -> None:
    await befriend(graph, (A, B), (A, C), (A, D), (B, C))
    for game in (1, 2, 3):
        for user in (B, C, D):
            await graph.record_play(user, game)
    for viewer in (A, B, C):
        await build_view(graph, views, viewer)

    async def total_after(*changes: Awaitable[object]) -> int:
        for change in changes:
            await change
        await fan_out.handle(await told(graph))
        for viewer in (A, B, C):
            assert await views.counts(viewer) == await true_counts(graph, viewer)
        return sum((await views.counts(A) or {}).values())

    assert await total_after() == 9
    assert await total_after(graph.set_activity_hidden(B, True)) == 6
    assert await total_after(graph.record_play(B, 4), graph.set_activity_hidden(C, True)) == 3
    assert await total_after(graph.set_activity_hidden(B, False)) == 7
    assert await total_after(graph.block(D, A, True)) == 4
    assert await total_after(graph.block(D, A, False), graph.set_activity_hidden(C, False)) == 10
    assert await total_after(graph.delete_user(D)) == 7


async def test_plays_of_a_pulled_user_are_not_pushed_and_nobody_is_missing_when_they_are_again(
    graph: SQLiteGraph, views: FriendViews, fan_out: FanOut, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: set[int] = set()
    read_friends = graph.friends

    async def friends(user_ids: Collection[int]) -> dict[int, list[int]]:
        asked.update(user_ids)
        return await read_friends(user_ids)

    await befriend(graph, (A, B), (B, C), (A, C), (B, D))
    await build_view(graph, views, A)
    lower = SQLiteGraph(tmp_path / "truth.sqlite", fanout_max_friends=2)
    await lower.open()
    await lower.close()
    assert await graph.pulled_logs() == {B: 0}
    monkeypatch.setattr(graph, "friends", friends)
    await told(graph)  # the view is not told of the change yet
    await graph.record_play(B, 1)
    await graph.record_play(C, 2)
    await graph.import_rows("plays", [PlayRow(B, 3), PlayRow(B, 4)])
    await fan_out.handle(await told(graph))
    assert sum((await views.counts(A) or {}).values()) == 1
    assert asked == {C}
    # Pushed again: the event of that change brings what was left out.
    await graph.set_friendship(B, D, False)
    await graph.set_friendship(B, C, False)
    await fan_out.handle(await told(graph))
    assert await views.counts(A) == await true_counts(graph, A) != {}
    assert sum((await views.counts(A) or {}).values()) == 4


class RememberedPull(FanOut):
    """A rule left out: it goes by whom the truth named at the batch before."""

    _before: set[int] | None = None

    async def _pulled(self) -> set[int]:
        before, self._before = self._before, await super()._pulled()
        return self._before if before is None else before


@pytest.mark.parametrize(("make", "counted"), [(FanOut, 2), (RememberedPull, 1)])
async def test_the_flag_is_read_after_the_plays_are_known_since_one_remembered_loses_a_play(
    make: type[FanOut], counted: int, graph: SQLiteGraph, views: FriendViews, tmp_path: Path
) -> None:
    fan_out = make(graph, views)
    lower = SQLiteGraph(tmp_path / "truth.sqlite", fanout_max_friends=1)
    await lower.open()
    await lower.close()
    await befriend(graph, (A, B), (B, C))
    await build_view(graph, views, A)
    await graph.record_play(B, 1)
    await fan_out.handle(await told(graph))
    await graph.set_friendship(B, C, False)
    await graph.set_friendship(B, A, False)
    assert await graph.pulled_logs() == {}
    await befriend(graph, (A, B))
    await fan_out.handle(await told(graph))
    assert sum((await views.counts(A) or {}).values()) == 1
    await graph.record_play(B, 2)
    await fan_out.handle(await told(graph))
    assert sum((await views.counts(A) or {}).values()) == counted


async def test_a_cursor_past_its_logs_end_evicts_the_view(
    graph: SQLiteGraph, views: FriendViews, fan_out: FanOut
) -> None:
    await befriend(graph, (A, B))
    await build_view(graph, views, A)
    await build_view(graph, views, B)
    await views.apply([Update(A, B, 1, 1), Update(A, B, 2, 2)])  # plays that the truth does not have
    await told(graph)
    await fan_out.handle([Event(1, "log", B)])
    assert await views.token(A) is None
    assert await views.token(B) is not None


async def test_parting_from_one_whose_cursor_is_past_its_logs_end_evicts_the_view(
    graph: SQLiteGraph, views: FriendViews, fan_out: FanOut
) -> None:
    await befriend(graph, (A, B))
    await build_view(graph, views, A)
    await views.apply([Update(A, B, 1, 1)])
    await graph.set_friendship(A, B, False)
    await fan_out.handle(await told(graph))
    assert await views.token(A) is None


async def test_the_views_an_event_concerns_are_evicted(graph: SQLiteGraph, views: FriendViews, fan_out: FanOut) -> None:
    await befriend(graph, (A, B), (A, C), (C, D))
    for viewer in (A, B, C, D):
        await build_view(graph, views, viewer)
    await fan_out.evict_concerned(Event(1, "play", A, 0, 1, 1))
    assert [await views.token(viewer) is None for viewer in (A, B, C, D)] == [False, True, True, False]
    await fan_out.evict_concerned(Event(2, "edge", A, D))
    assert [await views.token(viewer) is None for viewer in (A, B, C, D)] == [True] * 4


async def test_events_of_users_nobody_ever_saw_do_nothing(views: FriendViews, fan_out: FanOut) -> None:
    await fan_out.handle([])
    await fan_out.handle(
        [Event(1, "play", 9, 0, 1, 1), Event(2, "log", 9), Event(3, "user", 9), Event(4, "edge", 8, 9)]
    )
    await fan_out.evict_concerned(Event(1, "play", 9, 0, 1, 1))
    assert await views.resident_count() == 0
