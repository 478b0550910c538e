"""Who is hidden, deleted or blocked, as lists: read by the jobs of every process and by the viewer."""

from __future__ import annotations

import pytest

from graph.social_graph import SocialGraph, User, UserDeletedError, UserRow
from graph.visibility import version_of


async def test_invisible_are_the_hidden_and_the_deleted_with_their_versions(graph: SocialGraph) -> None:
    assert await graph.invisible_users() == {}
    for user, changes in ((1, [True]), (2, [True, False]), (3, [True, False, True])):
        for hidden in changes:
            await graph.set_activity_hidden(user, hidden)
    await graph.set_activity_hidden(2**63 - 1, True)
    await graph.delete_user(4)
    await graph.set_activity_hidden(5, True)
    await graph.delete_user(5)
    await graph.set_friendship(1, 6, True)
    found = await graph.invisible_users()
    assert found == {1: 1, 3: 3, 4: 1, 5: 2, 2**63 - 1: 1}
    assert found == {user: version_of(await graph.user_state(user)) for user in found}


async def test_deletions_go_on_after_a_number(graph: SocialGraph) -> None:
    nothing = await graph.deletions()
    assert nothing.user_ids == []
    assert await graph.deletions(nothing.number) == nothing
    await graph.delete_user(7)
    await graph.delete_user(3)
    await graph.delete_user(7)
    first = await graph.deletions(nothing.number)
    assert first.user_ids == [7, 3]
    await graph.set_activity_hidden(4, True)
    assert await graph.deletions(first.number) == (first.number, [])
    await graph.delete_user(2**63 - 1)
    second = await graph.deletions(first.number)
    assert second.user_ids == [2**63 - 1]
    assert second.number > first.number
    assert await graph.deletions() == (second.number, [7, 3, 2**63 - 1])


async def test_a_blocked_page_ascends_and_goes_on_after_an_id(graph: SocialGraph) -> None:
    for other in (30, 10, 20, 3, 40):
        await graph.block(15, other, True)
    await graph.save_users([UserRow(10, "Ann")])
    assert await graph.blocked_page(15, 2) == ([User(3), User(10, "Ann")], 5, True)
    assert await graph.blocked_page(15, 2, after_id=10) == ([User(20), User(30)], 5, True)
    assert await graph.blocked_page(15, 2, after_id=30) == ([User(40)], 5, False)
    assert await graph.blocked_page(99, 5) == ([], 0, False)


async def test_a_blocked_page_holds_whom_the_user_blocks_and_never_who_blocks_the_user(graph: SocialGraph) -> None:
    await graph.set_friendship(1, 2, True)
    for blocker, other in ((1, 2), (3, 2), (2, 3), (2, 4)):
        await graph.block(blocker, other, True)
    assert [(await graph.blocked_page(user, 9)).users for user in (1, 2, 3, 4)] == [
        [User(2)],
        [User(3), User(4)],
        [User(2)],
        [],
    ]
    await graph.block(2, 3, False)
    assert (await graph.blocked_page(2, 9)).users == [User(4)]
    assert (await graph.blocked_page(3, 9)).users == [User(2)]


async def test_deleted_users_are_on_no_blocked_page(graph: SocialGraph) -> None:
    await graph.block(1, 2, True)
    await graph.block(1, 3, True)
    await graph.delete_user(2)
    assert await graph.blocked_page(1, 9) == ([User(3)], 1, False)
    await graph.delete_user(1)
    assert await graph.blocked_page(1, 9) == ([], 0, False)
    with pytest.raises(UserDeletedError):
        await graph.block(3, 2, False)
