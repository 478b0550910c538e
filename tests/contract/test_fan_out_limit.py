"""The PULL flag: users with more friends than plays are pushed to, told in the transaction that befriends or parts."""

from __future__ import annotations

import asyncio
import random

import pytest

from graph.social_graph import FriendshipRow, PlayRow, SocialGraph
from graph.visibility import CursorState, UserFlag, version_of
from tests.contract.truths import Truth, add_games

LIMIT = 3
STAR = 50


@pytest.fixture
async def graph(truth: Truth) -> SocialGraph:
    """A truth in which four friends are one too many."""
    truth.fanout_max_friends = LIMIT
    return await truth.open()


async def befriend(graph: SocialGraph, *friends: int, on: bool = True) -> None:
    for friend in friends:
        await graph.set_friendship(STAR, friend, on)


async def told(graph: SocialGraph) -> list[tuple[str, int, int]]:
    """What was told since the last time."""
    rows = await graph.outbox(1_000)
    await graph.mark_published([row.id for row in rows])
    return [(row.kind.value, row.user_id, row.other_id) for row in rows]


async def test_one_friend_too_many_sets_the_flag_and_tells_it_once(graph: SocialGraph) -> None:
    await befriend(graph, 1, 2, 3)
    assert await graph.user_state(STAR) == 0
    assert await graph.pulled_logs() == {}
    await told(graph)
    await befriend(graph, 4)
    assert await graph.user_state(STAR) == 8 + UserFlag.PULL
    assert await told(graph) == [("edge", 4, STAR), ("user", STAR, 0)]
    await befriend(graph, 5, 5)
    assert version_of(await graph.user_state(STAR)) == 1
    assert await told(graph) == [("edge", 5, STAR)]
    assert await graph.pulled_logs() == {STAR: 0}


async def test_it_is_cleared_under_nine_tenths_of_the_limit_and_not_before(graph: SocialGraph) -> None:
    await befriend(graph, 1, 2, 3, 4)
    await told(graph)
    await befriend(graph, 4, on=False)
    assert await graph.user_state(STAR) & UserFlag.PULL  # 3 of 3
    assert await told(graph) == [("edge", 4, STAR)]
    await befriend(graph, 3, on=False)
    assert await graph.user_state(STAR) == 2 * 8  # 2 < 2.7
    assert await told(graph) == [("edge", 3, STAR), ("user", STAR, 0)]
    assert await graph.pulled_logs() == {}
    await befriend(graph, 3)
    assert await graph.user_state(STAR) == 2 * 8
    await befriend(graph, 4)
    assert await graph.user_state(STAR) == 3 * 8 + UserFlag.PULL


async def test_the_limit_of_twenty_leaves_room_for_coming_and_going(truth: Truth) -> None:
    truth.fanout_max_friends = 20
    graph = await truth.open()
    await befriend(graph, *range(1, 21))
    assert await graph.pulled_logs() == {}
    await befriend(graph, 21)
    await befriend(graph, 21, 20, 19, on=False)
    assert await graph.pulled_logs() == {STAR: 0}  # 18
    await befriend(graph, 18, on=False)
    assert await graph.pulled_logs() == {}  # 17


async def test_both_ends_of_one_friendship_may_cross_at_once(graph: SocialGraph) -> None:
    await befriend(graph, 1, 2, 3)
    for friend in (4, 5, 6):
        await graph.set_friendship(60, friend, True)
    await told(graph)
    await befriend(graph, 60)
    assert await told(graph) == [("edge", STAR, 60), ("user", STAR, 0), ("user", 60, 0)]
    assert set(await graph.pulled_logs()) == {STAR, 60}
    await befriend(graph, 3, on=False)
    await befriend(graph, 60, on=False)
    assert set(await graph.pulled_logs()) == {60}


async def test_viewers_see_the_state_and_a_later_version(graph: SocialGraph) -> None:
    await befriend(graph, 1, 2, 3)
    (before,) = (await graph.visibilities(1, [STAR])).values()
    await befriend(graph, 4)
    (pulled,) = (await graph.visibilities(1, [STAR])).values()
    assert (before.state, pulled.state) == (CursorState.PUSH, CursorState.PULL)
    assert (await graph.seen_logs(1))[STAR].state is CursorState.PULL
    assert (await graph.visibilities(STAR, [1]))[1].state is CursorState.PUSH
    await befriend(graph, 3, 4, on=False)
    (pushed,) = (await graph.visibilities(1, [STAR])).values()
    assert pushed.state is CursorState.PUSH
    assert before.version < pulled.version < pushed.version


async def test_blocking_hiding_and_deleting_leave_the_number_of_friendships(graph: SocialGraph) -> None:
    await befriend(graph, 1, 2, 3, 4)
    await graph.block(STAR, 1, True)
    await graph.block(2, STAR, True)
    await graph.delete_user(3)
    await graph.set_activity_hidden(STAR, True)
    assert await graph.user_state(STAR) & (UserFlag.PULL | UserFlag.HIDDEN) == UserFlag.PULL | UserFlag.HIDDEN
    assert (await graph.visibilities(4, [STAR]))[STAR].state is CursorState.OFF
    await graph.set_activity_hidden(STAR, False)
    assert (await graph.visibilities(4, [STAR]))[STAR].state is CursorState.PULL
    await befriend(graph, 1, on=False)
    await befriend(graph, 2, on=False)
    assert await graph.pulled_logs() == {}


async def test_lengths_of_pulled_logs_follow_the_plays(graph: SocialGraph) -> None:
    await add_games(graph, 5)
    await graph.record_play(STAR, 1)
    await befriend(graph, 1, 2, 3, 4)
    assert await graph.pulled_logs() == {STAR: 1}
    await graph.record_play(STAR, 2)
    await graph.record_play(STAR, 2)
    await graph.import_rows("plays", [PlayRow(STAR, 4), PlayRow(STAR, 5), PlayRow(1, 5)])
    assert await graph.pulled_logs() == {STAR: 4}


async def test_imports_cross_the_limit(graph: SocialGraph) -> None:
    rows = [FriendshipRow(STAR, friend) if friend % 2 else FriendshipRow(friend, STAR) for friend in (1, 2, 3, 4, 4, 3)]
    await graph.import_rows("friends", rows[:3])
    assert await graph.pulled_logs() == {}
    await told(graph)
    await graph.import_rows("friends", rows)
    assert await graph.pulled_logs() == {STAR: 0}
    assert await told(graph) == [("edge", 4, STAR), ("user", STAR, 0)]
    await graph.import_rows("friends", rows)
    assert await told(graph) == []
    await befriend(graph, 4, 3, on=False)
    assert await graph.pulled_logs() == {}
    await graph.import_rows("friends", [FriendshipRow(70, 80 + friend) for friend in range(50)])
    assert await graph.pulled_logs() == {70: 0}


async def test_an_import_that_is_refused_counts_no_friend(graph: SocialGraph) -> None:
    await graph.delete_user(9)
    assert await graph.import_rows("friends", [*(FriendshipRow(STAR, n) for n in range(1, 8)), FriendshipRow(STAR, 9)])
    await befriend(graph, 1, 2, 3)
    assert await graph.pulled_logs() == {}


async def test_another_limit_concerns_those_who_have_friends_already(truth: Truth) -> None:
    truth.fanout_max_friends = LIMIT
    graph = await truth.open()
    await befriend(graph, *range(1, 11))
    for friend in range(1, 5):
        await graph.set_friendship(60, friend, True)
    assert set(await graph.pulled_logs()) == {STAR, 60}
    await told(graph)
    truth.fanout_max_friends = 9
    higher = await truth.open()
    assert await higher.pulled_logs() == {STAR: 0}
    assert await told(higher) == [("user", 60, 0)]
    await truth.open()
    assert await told(higher) == []
    truth.fanout_max_friends = LIMIT
    lower = await truth.open()
    assert set(await lower.pulled_logs()) == {STAR, 60}
    assert await told(lower) == [("user", 60, 0)]


async def test_the_flag_is_right_after_many_changes_at_once(truth: Truth) -> None:
    truth.fanout_max_friends = 6
    graphs = [await truth.open(), await truth.open()]
    chosen = random.Random(3)
    for _ in range(10):
        pairs = [
            (pair[0], pair[1], chosen.random() < 0.6) for pair in (chosen.sample(range(1, 16), 2) for _ in range(40))
        ]
        changes = (graphs[n % 2].set_friendship(*pair) for n, pair in enumerate(pairs))
        await asyncio.gather(*changes)
        friends = await graphs[0].friends(range(1, 16))
        pulled = await graphs[1].pulled_logs()
        for user, of_user in friends.items():
            assert user in pulled or len(of_user) <= 6
            assert user not in pulled or len(of_user) * 10 >= 54
    assert {row.user_id for row in await graphs[0].outbox(2_000) if row.kind == "user"} >= set(pulled)
