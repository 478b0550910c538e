"""Blocks, hiding and deletion through the API: counts and lists of both sides, from cold and from resident views."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from graph.social_graph import FriendshipRow, PlayRow, UserRow
from tests.app.privacy import BLOCK, DELETE, HIDE, UNBLOCK, block, delete, hide, lists, unblock
from tests.app.world import World, parametrize_truths, settings_of_truth, world
from tests.waiting import until

A, B, C = 11, 12, 13
NEVER = 424_242
NAMELESS = {"id": str(B), "name": None}


pytest_generate_tests = parametrize_truths


@pytest.fixture
def truth_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return settings_of_truth(request.param, request)


@pytest.fixture
async def start(request: pytest.FixtureRequest, headcount: World) -> World:
    """A, B and C are friends of each other; A played game 1, B 1 and 2, C 2. Views are there before, or not."""
    await headcount.games(3)
    for user, friend in ((A, B), (A, C), (B, C)):
        await headcount.befriend(user, friend)
    for user, game in ((A, 1), (B, 1), (B, 2), (C, 2)):
        await headcount.play(user, game)
    if request.param == "resident":
        await headcount.resident(A, B, C)
    await headcount.drained()
    return headcount


async def counts(headcount: World) -> list[list[int | None]]:
    """What A, B and C see of games 1 and 2, once all has been told; cold viewers get cold pages again."""
    await headcount.drained()
    return [await headcount.friends_played(user, [1, 2]) for user in (A, B, C)]


ALL: list[list[int | None]] = [[1, 2], [1, 1], [2, 1]]


@pytest.mark.parametrize(("blocker", "blocked"), [(A, B), (B, A)])
async def test_a_block_takes_each_from_the_others_counts_and_lists_and_back(
    start: World, blocker: int, blocked: int
) -> None:
    await block(start, blocker, blocked)
    await block(start, blocker, blocked)  # safe to repeat
    assert await counts(start) == [[0, 1], [0, 1], [2, 1]]
    assert await lists(start, blocker) == {"friends": [C], "blocked": [blocked], "activityHidden": False}
    assert await lists(start, blocked) == {"friends": [C], "blocked": [], "activityHidden": False}
    assert (await lists(start, C))["friends"] == [A, B]
    await unblock(start, blocker, blocked)
    await unblock(start, blocker, blocked)
    assert await counts(start) == ALL
    assert (await lists(start, A))["friends"] == [B, C]
    assert (await lists(start, B))["friends"] == [A, C]


async def test_two_who_block_each_other_are_two_blocks(start: World) -> None:
    await block(start, A, B)
    await block(start, B, A)
    assert await counts(start) == [[0, 1], [0, 1], [2, 1]]
    await unblock(start, A, B)
    assert await counts(start) == [[0, 1], [0, 1], [2, 1]]
    assert (await lists(start, A))["blocked"] == []
    assert (await lists(start, B))["blocked"] == [A]
    await unblock(start, B, A)
    assert await counts(start) == ALL


async def test_plays_during_a_block_count_once_it_is_gone(start: World) -> None:
    await block(start, A, B)
    await start.play(B, 3)
    await start.play(A, 3)
    await start.drained()
    assert [await start.friends_played(user, [3]) for user in (A, B, C)] == [[0], [0], [2]]
    await unblock(start, A, B)
    await start.drained()
    assert [await start.friends_played(user, [3]) for user in (A, B, C)] == [[1], [1], [2]]


async def test_befriending_during_a_block_changes_the_friendship_and_not_the_block(start: World) -> None:
    await block(start, B, A)
    await start.part(A, B)
    await start.befriend(A, B)
    assert await counts(start) == [[0, 1], [0, 1], [2, 1]]
    assert (await lists(start, A))["friends"] == [C]
    assert (await lists(start, B))["blocked"] == [A]
    await start.part(A, B)
    await unblock(start, B, A)
    assert await counts(start) == [[0, 1], [0, 1], [2, 1]]
    await start.befriend(A, B)
    assert await counts(start) == ALL


async def test_who_hides_leaves_all_counts_keeps_their_own_and_comes_back(start: World) -> None:
    await hide(start, B)
    await hide(start, B)
    assert await counts(start) == [[0, 1], [1, 1], [1, 0]]
    assert await lists(start, B) == {"friends": [A, C], "blocked": [], "activityHidden": True}
    assert await lists(start, A) == {"friends": [B, C], "blocked": [], "activityHidden": False}
    await start.play(B, 3)
    await start.drained()
    assert await start.friends_played(A, [3]) == [0]
    await hide(start, B, hidden=False)
    assert await counts(start) == ALL
    assert await start.friends_played(A, [3]) == [1]


async def test_a_deleted_user_leaves_all_counts_and_lists_and_never_returns(start: World) -> None:
    await block(start, C, B)
    assert await delete(start, B)
    assert not await delete(start, B)
    await start.drained()
    assert await start.friends_played(A, [1, 2]) == [0, 1]
    assert await start.friends_played(C, [1, 2]) == [1, 0]
    assert (await lists(start, A))["friends"] == [C]
    assert await lists(start, C) == {"friends": [A], "blocked": [], "activityHidden": False}
    for query, variables, scopes in (
        ("{ viewer { user { id } } }", {}, []),
        ('{ games(ids: ["1"]) { name } }', {}, []),
        ("mutation { recordPlay(gameId: 1) { first } }", {}, []),
        ('mutation { heartbeat(sessionId: "s", gameId: 1) { live } }', {}, []),
        (HIDE, {"h": True}, []),
        (BLOCK, {"u": str(A)}, []),
        (DELETE, {"u": str(A)}, ["admin"]),
    ):
        assert await refused(start, query, variables, user=B, scopes=scopes) == {"code": "UNAUTHENTICATED"}
    friendship = "mutation($u: ID!, $f: ID!) { addFriendship(userId: $u, friendId: $f) { friends } }"
    variables = {"u": str(A), "f": str(B)}
    found = await refused(start, friendship, variables, user=A, scopes=["friendships:write"])
    assert found == {"code": "NOT_FOUND", "argument": "friendId"}
    for query in (BLOCK, UNBLOCK):
        found = await refused(start, query, {"u": str(B)}, user=A)
        assert found == {"code": "NOT_FOUND", "argument": "userId"}
    assert (await start.application.graph.totals()).users == 2


async def refused(headcount: World, query: str, variables: dict[str, Any], **who: Any) -> dict[str, Any]:
    """The extensions of the one error that a request is answered with."""
    body = await headcount.post(query, variables, **who)
    (error,) = body["errors"]
    assert not body.get("data") or set(body["data"].values()) == {None}
    extensions: dict[str, Any] = error["extensions"]
    return extensions


@pytest.mark.usefixtures("truth_settings")
async def test_fifteen_played_two_block_the_viewer_and_one_hides(headcount: World) -> None:
    await headcount.games(1)
    friends = list(range(101, 116))
    for friend in friends:
        await headcount.befriend(A, friend)
        await headcount.play(friend, 1)
    for view in ("cold", "resident"):
        if view == "resident":
            await headcount.resident(A)
        await headcount.drained()
        assert await headcount.friends_played(A, [1]) == [15]
        await block(headcount, 101, A)
        await block(headcount, 108, A)
        await hide(headcount, 115)
        for back_and_forth in range(2):
            await hide(headcount, 115, hidden=bool(back_and_forth))
            await (block if back_and_forth else unblock)(headcount, 108, A)
        await headcount.drained()
        body = await headcount.post('{ game(id: "1") { friendsPlayed friendsPlayedLabel } }', user=A)
        assert "errors" not in body
        assert body["data"]["game"] == {"friendsPlayed": 12, "friendsPlayedLabel": "12"}
        assert (await lists(headcount, A))["friends"] == [friend for friend in friends if friend not in (101, 108)]
        await unblock(headcount, 101, A)
        await unblock(headcount, 108, A)
        await hide(headcount, 115, hidden=False)
    await headcount.drained()
    assert await headcount.friends_played(A, [1]) == [15]


async def test_a_block_and_a_parting_look_the_same_to_the_other_side(headcount: World) -> None:
    """Everything that B can ask, answered alike whether A blocks or parts; the request's id aside."""
    await headcount.games(2)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("{ viewer { friends { totalCount nodes { id } pageInfo { hasNextPage } } blocked { totalCount } } }", {}),
        ('{ games(ids: ["1", "2"]) { friendsPlayed friendsPlayedLabel } }', {}),
        ("{ viewer { activityHidden games { totalCount } } }", {}),
        (UNBLOCK, {"u": str(A)}),
        (BLOCK, {"u": str(A)}),
        (UNBLOCK, {"u": str(A)}),
        ("mutation { recordPlay(gameId: 2) { first } }", {}),
    ]

    async def answers(hide_from_b: Callable[[], Awaitable[object]], a: int, b: int) -> list[str]:
        await headcount.befriend(a, b)
        await headcount.play(a, 1)
        await headcount.resident(b)
        await hide_from_b()
        await headcount.drained()
        found = []
        for query, variables in asked:
            swapped = {key: str(a) for key in variables}
            body = await headcount.post(query, swapped, user=b)
            found.append(str(body).replace(f"'{a}'", "A"))
            await headcount.drained()
        return found

    parted = await answers(lambda: headcount.part(21, 22), 21, 22)
    assert await answers(lambda: block(headcount, 31, 32), 31, 32) == parted


@pytest.mark.parametrize("query", [BLOCK, UNBLOCK])
@pytest.mark.parametrize("other", [A, 0, -1, 2**63, "", "nobody", "1" * 200, None, 1.5, "01"])
async def test_nobody_blocks_themselves_or_nobody(headcount: World, query: str, other: object) -> None:
    variables = {"u": str(other) if isinstance(other, int) else other}
    assert await refused(headcount, query, variables, user=A) in (
        {"code": "BAD_INPUT", "argument": "userId"},
        {"code": "BAD_INPUT", "argument": "u"},  # a variable that is no ID at all
    )
    assert (await headcount.application.graph.totals()).users == 0


async def test_what_needs_a_token_or_a_scope_says_so(headcount: World) -> None:
    for query, variables in ((BLOCK, {"u": "5"}), (UNBLOCK, {"u": "5"}), (HIDE, {"h": True}), (DELETE, {"u": "5"})):
        assert await refused(headcount, query, variables) == {"code": "UNAUTHENTICATED"}
    for scopes in ([], ["friendships:write", "catalog:write", "runs:write"]):
        assert await refused(headcount, DELETE, {"u": "5"}, user=A, scopes=scopes) == {"code": "FORBIDDEN"}
    for bad in ("0", "x", ""):
        answer = await refused(headcount, DELETE, {"u": bad}, user=A, scopes=["users:write"])
        assert answer == {"code": "BAD_INPUT", "argument": "userId"}
    assert (await headcount.application.graph.totals()).users == 0


async def test_blocking_somebody_never_seen_stands_when_they_come(headcount: World) -> None:
    await headcount.games(1)
    await unblock(headcount, A, NEVER)
    assert (await headcount.application.graph.totals()).users == 0  # what changes nothing creates nobody
    await block(headcount, A, NEVER)
    assert (await lists(headcount, A))["blocked"] == [NEVER]
    await headcount.play(NEVER, 1)
    await headcount.befriend(A, NEVER)
    await headcount.drained()
    assert await headcount.friends_played(A, [1]) == [0]
    await unblock(headcount, A, NEVER)
    await headcount.drained()
    assert await headcount.friends_played(A, [1]) == [1]


async def test_an_id_that_is_deleted_before_it_was_ever_seen_never_comes(headcount: World) -> None:
    assert await delete(headcount, NEVER)
    assert not await delete(headcount, NEVER)
    assert await refused(headcount, "{ viewer { user { id } } }", {}, user=NEVER) == {"code": "UNAUTHENTICATED"}
    assert await refused(headcount, BLOCK, {"u": str(NEVER)}, user=A) == {"code": "NOT_FOUND", "argument": "userId"}


async def test_the_blocked_list_is_paged(headcount: World) -> None:
    for other in (50, 20, 40, 30):
        await block(headcount, A, other)
    query = """query($n: Int!, $c: String) { viewer { blocked(first: $n, after: $c) {
        totalCount edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage endCursor }
    } } }"""
    first = (await headcount.ask(query, {"n": 3}, user=A))["viewer"]["blocked"]
    assert [edge["node"]["id"] for edge in first["edges"]] == ["20", "30", "40"]
    assert (first["totalCount"], first["pageInfo"]["hasNextPage"]) == (4, True)
    await unblock(headcount, A, 40)  # a cursor stays good while the list changes
    rest = (await headcount.ask(query, {"n": 3, "c": first["pageInfo"]["endCursor"]}, user=A))["viewer"]["blocked"]
    assert [edge["node"]["id"] for edge in rest["edges"]] == ["50"]
    assert rest["pageInfo"]["hasNextPage"] is False
    for n, code in ((0, "BAD_INPUT"), (101, "LIMIT_EXCEEDED")):
        assert (await refused(headcount, query, {"n": n}, user=A))["code"] == code
    friends = "{ viewer { friends { pageInfo { endCursor } } } }"
    await headcount.befriend(A, 60)
    foreign = (await headcount.ask(friends, user=A))["viewer"]["friends"]["pageInfo"]["endCursor"]
    assert await refused(headcount, query, {"n": 1, "c": foreign}, user=A) == {"code": "BAD_INPUT", "argument": "after"}


@pytest.mark.usefixtures("truth_settings")
async def test_what_one_process_deletes_another_refuses_within_two_seconds(
    headcount: World, tmp_path: Path, redis_url: str, truth_settings: dict[str, Any]
) -> None:
    await headcount.games(1)
    await headcount.play(B, 1)
    async with world(tmp_path, redis_url, workers=False, **truth_settings) as other:
        query = "{ viewer { games { totalCount } } }"
        assert (await other.ask(query, user=B))["viewer"]["games"]["totalCount"] == 1
        await delete(headcount, B)
        # Writes are refused by the truth, at once and everywhere.
        play = "mutation { recordPlay(gameId: 1) { first } }"
        assert await refused(other, play, {}, user=B) == {"code": "UNAUTHENTICATED"}

        async def refuses() -> bool:
            body = await other.post(query, user=B)
            return [error["extensions"]["code"] for error in body.get("errors", [])] == ["UNAUTHENTICATED"]

        await until(refuses, seconds=5)
    async with world(tmp_path, redis_url, workers=False, **truth_settings) as later:  # from its first request on
        assert await refused(later, query, {}, user=B) == {"code": "UNAUTHENTICATED"}


async def test_imports_bring_no_deleted_user_back(headcount: World) -> None:
    await headcount.games(1)
    await delete(headcount, B)
    graph = headcount.application.graph
    assert await graph.import_rows("plays", [PlayRow(A, 1), PlayRow(B, 1)]) == {1: f"user {B} was deleted"}
    assert await graph.import_rows("friends", [FriendshipRow(A, B)]) == {0: f"user {B} was deleted"}
    assert await graph.import_rows("users", [UserRow(B, "Bo")]) == {0: f"user {B} was deleted"}
    assert (await lists(headcount, A))["friends"] == []
