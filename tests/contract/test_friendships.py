"""Friendships, blocks, hiding and deletion: edges with versions, and who sees what."""

from __future__ import annotations

import asyncio

import pytest

from graph.social_graph import ChangeKind, Friendship, SeenLog, SocialGraph, User, UserDeletedError, UserRow
from graph.visibility import CursorState, UserFlag, Visibility
from tests.contract.truths import Truth, add_games, unpack


async def test_befriending_creates_users_and_tells_the_edge(graph: SocialGraph) -> None:
    assert await graph.set_friendship(9, 4, True) == Friendship(friends=True, version=1)
    assert set(await graph.users([4, 9])) == {4, 9}
    assert await graph.friends([4, 9, 5]) == {4: [9], 9: [4], 5: []}
    assert [row[1:] for row in await graph.outbox(10)] == [(ChangeKind.EDGE, 4, 9, 0, 0)]


async def test_a_call_that_changes_nothing_writes_nothing(graph: SocialGraph) -> None:
    assert await graph.set_friendship(4, 9, False) == Friendship(friends=False, version=0)
    assert await graph.users([4, 9]) == {}
    await graph.set_friendship(4, 9, True)
    assert await graph.set_friendship(9, 4, True) == Friendship(friends=True, version=1)
    await graph.block(4, 9, True)
    assert not await graph.block(4, 9, True)
    await graph.set_activity_hidden(4, True)
    assert not await graph.set_activity_hidden(4, True)
    assert not await graph.set_activity_hidden(5, False)
    assert len(await graph.outbox(10)) == 3
    assert set(await graph.users([4, 5, 9])) == {4, 9}


async def test_versions_grow_with_every_change_and_never_begin_again(graph: SocialGraph) -> None:
    versions = [(await graph.set_friendship(1, 2, n % 2 == 0)).version for n in range(6)]
    assert versions == [1, 2, 3, 4, 5, 6]
    assert await graph.block(2, 1, True)
    assert (await graph.set_friendship(1, 2, True)).version == 8


async def test_nobody_is_their_own_friend(graph: SocialGraph) -> None:
    with pytest.raises(ValueError, match="themselves"):
        await graph.set_friendship(4, 4, True)
    with pytest.raises(ValueError, match="themselves"):
        await graph.block(4, 4, True)
    assert await graph.users([4]) == {}


async def test_parting_takes_the_friend_from_both(graph: SocialGraph) -> None:
    await add_games(graph, 1)
    await graph.record_play(2, 1)
    await graph.set_friendship(1, 2, True)
    assert set(await graph.seen_logs(1)) == {2}
    await graph.set_friendship(2, 1, False)
    assert await graph.seen_logs(1) == {}
    assert await graph.friends([1, 2]) == {1: [], 2: []}
    assert await graph.seen_logs(1, [2]) == {2: SeenLog(2, CursorState.OFF, b"")}
    await graph.set_friendship(1, 2, True)
    assert unpack((await graph.seen_logs(1))[2].log) == [1]


async def test_a_friend_page_ascends_and_goes_on_after_an_id(graph: SocialGraph) -> None:
    for friend in (30, 10, 20, 3, 40):
        await graph.set_friendship(15, friend, True)
    await graph.save_users([UserRow(10, "Ann"), UserRow(20, None)])
    page = await graph.friend_page(15, 2)
    assert page == ([User(3), User(10, "Ann")], 5, True)
    assert await graph.friend_page(15, 2, after_id=10) == ([User(20), User(30)], 5, True)
    assert await graph.friend_page(15, 2, after_id=30) == ([User(40)], 5, False)
    assert await graph.friend_page(15, 5) == ([User(3), User(10, "Ann"), User(20), User(30), User(40)], 5, False)
    assert await graph.friend_page(99, 5) == ([], 0, False)


async def test_a_block_hides_the_friendship_from_both_and_keeps_it(graph: SocialGraph) -> None:
    await add_games(graph, 1)
    for user in (1, 2):
        await graph.record_play(user, 1)
    await graph.set_friendship(1, 2, True)
    for blocker, blocked in ((1, 2), (2, 1)):
        assert await graph.block(blocker, blocked, True)
        assert await graph.seen_logs(1) == {}
        assert await graph.seen_logs(2) == {}
        assert (await graph.friend_page(1, 10)).total == 0
        assert await graph.friends([1, 2]) == {1: [2], 2: [1]}  # fan-out has to tell both
        assert (await graph.set_friendship(1, 2, True)).friends
        assert await graph.block(blocker, blocked, False)
        assert set(await graph.seen_logs(1)) == {2}
        assert set(await graph.seen_logs(2)) == {1}


async def test_two_blocks_are_two(graph: SocialGraph) -> None:
    await graph.set_friendship(1, 2, True)
    await graph.block(1, 2, True)
    await graph.block(2, 1, True)
    await graph.block(1, 2, False)
    assert await graph.seen_logs(1) == {}
    await graph.block(2, 1, False)
    assert set(await graph.seen_logs(1)) == {2}


async def test_a_block_between_strangers_stands_when_they_befriend(graph: SocialGraph) -> None:
    assert await graph.block(8, 3, True)
    assert set(await graph.users([3, 8])) == {3, 8}
    assert (await graph.set_friendship(3, 8, True)).friends
    assert (await graph.visibilities(3, [8]))[8].state is CursorState.OFF


async def test_hidden_activity_is_seen_by_nobody_and_hides_nothing_else(graph: SocialGraph) -> None:
    await add_games(graph, 1)
    for user in (1, 2):
        await graph.record_play(user, 1)
    await graph.set_friendship(1, 2, True)
    assert await graph.set_activity_hidden(2, True)
    assert await graph.user_state(2) & UserFlag.HIDDEN
    assert await graph.seen_logs(1) == {}
    assert (await graph.seen_logs(1, [2]))[2] == SeenLog(2, CursorState.OFF, b"")
    assert set(await graph.seen_logs(2)) == {1}
    assert (await graph.friend_page(1, 10)).total == 1
    assert len(await graph.played_games(2)) == 1
    assert set(await graph.play_logs([2])) == {2}  # views take back what they counted
    assert await graph.set_activity_hidden(2, False)
    assert (await graph.seen_logs(1))[2].version == 3
    assert [row.kind for row in await graph.outbox(10)][-2:] == [ChangeKind.USER, ChangeKind.USER]


async def test_a_deleted_user_is_gone_and_never_returns(graph: SocialGraph) -> None:
    await add_games(graph, 1)
    await graph.record_play(2, 1)
    await graph.set_friendship(1, 2, True)
    assert await graph.delete_user(2)
    assert not await graph.delete_user(2)
    assert await graph.users([1, 2]) == {1: User(1)}
    assert await graph.seen_logs(1) == {}
    assert (await graph.friend_page(1, 10)).total == 0
    assert (await graph.friend_page(2, 10)).total == 0
    assert await graph.played_games(2) == []
    assert await graph.friends([1]) == {1: [2]}  # fan-out tells friends, and views take the log back
    assert set(await graph.play_logs([2])) == {2}
    told = len(await graph.outbox(10))
    for write in (
        graph.record_play(2, 1),
        graph.set_friendship(1, 2, False),
        graph.set_friendship(2, 3, True),
        graph.block(2, 1, True),
        graph.block(1, 2, True),
        graph.set_activity_hidden(2, True),
        graph.save_users([UserRow(5, "kept?"), UserRow(2, "Bo")]),
    ):
        with pytest.raises(UserDeletedError) as refused:
            await write
        assert refused.value.user_id == 2
    assert await graph.users([3, 5]) == {}
    assert len(await graph.outbox(10)) == told
    assert (await graph.totals()).users == 1


async def test_deleting_somebody_never_written_keeps_the_id_from_coming(graph: SocialGraph) -> None:
    assert await graph.delete_user(6)
    assert await graph.users([6]) == {}
    with pytest.raises(UserDeletedError):
        await graph.set_friendship(6, 1, True)


async def test_visibilities_have_every_id_and_add_both_versions(graph: SocialGraph) -> None:
    await graph.set_friendship(1, 2, True)
    await graph.set_activity_hidden(2, True)
    await graph.set_activity_hidden(2, False)
    await graph.set_activity_hidden(3, True)
    assert await graph.visibilities(1, [2, 3, 4]) == {
        2: Visibility(3, CursorState.PUSH),
        3: Visibility(1, CursorState.OFF),
        4: Visibility(0, CursorState.OFF),
    }
    assert await graph.visibilities(1, []) == {}
    assert await graph.seen_logs(1, []) == {}
    assert await graph.seen_logs(1, [4, 3]) == {
        4: SeenLog(0, CursorState.OFF, b""),
        3: SeenLog(1, CursorState.OFF, b""),
    }


async def test_users_without_friends_or_plays_are_empty(graph: SocialGraph) -> None:
    await graph.set_friendship(1, 2, True)
    assert await graph.seen_logs(99) == {}
    assert await graph.play_logs([99]) == {}
    assert await graph.seen_logs(1) == {2: SeenLog(1, CursorState.PUSH, b"")}
    assert await graph.user_state(99) == 0


async def test_many_change_the_same_edge_at_once(truth: Truth) -> None:
    graphs = [await truth.open(), await truth.open()]
    answers = await asyncio.gather(*(graphs[n % 2].set_friendship(1 + n % 3, 4, n % 2 == 0) for n in range(120)))
    rows = await graphs[0].outbox(1_000)
    for user in (1, 2, 3):
        changed = sum(row.user_id == user for row in rows)
        (visible,) = (await graphs[1].visibilities(user, [4])).values()
        assert visible.version == changed == max(a.version for n, a in enumerate(answers) if 1 + n % 3 == user)


async def test_names_of_users(graph: SocialGraph) -> None:
    await graph.save_users([UserRow(1, "Ann"), UserRow(2, None), UserRow(1, "Anne"), UserRow(3, "💎 'x'\t\n\"")])
    await graph.save_users([UserRow(1, None)])
    assert await graph.users({1, 2, 3, 4}) == {1: User(1, "Anne"), 2: User(2), 3: User(3, "💎 'x'\t\n\"")}
