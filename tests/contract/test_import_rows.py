"""Imports: a batch is one transaction, twice is once, and a bad row keeps nothing of its batch."""

from __future__ import annotations

import pytest

from graph.social_graph import (
    ChangeKind,
    FriendshipRow,
    Game,
    GameRow,
    PlayedGame,
    PlayRow,
    SocialGraph,
    User,
    UserRow,
)
from tests.contract.truths import Truth, unpack


async def test_plays_create_users_and_games(graph: SocialGraph) -> None:
    assert await graph.import_rows("plays", [PlayRow(1, 30), PlayRow(2, 30), PlayRow(1, 20)]) == {}
    assert (await graph.catalogue()).changed == [Game(30, 1, "Game 30"), Game(20, 2, "Game 20")]
    assert set(await graph.users([1, 2])) == {1, 2}
    assert {user: unpack(log) for user, log in (await graph.play_logs([1, 2])).items()} == {1: [1, 2], 2: [1]}


async def test_a_batch_tells_each_log_and_each_edge_once(graph: SocialGraph) -> None:
    await graph.import_rows("plays", [PlayRow(user, game) for game in range(1, 30) for user in (2, 1)])
    await graph.import_rows("friends", [FriendshipRow(2, 1), FriendshipRow(1, 2), FriendshipRow(1, 3)])
    told = sorted(row[1:] for row in await graph.outbox(100))
    assert told == [
        (ChangeKind.EDGE, 1, 2, 0, 0),
        (ChangeKind.EDGE, 1, 3, 0, 0),
        (ChangeKind.LOG, 1, 0, 0, 0),
        (ChangeKind.LOG, 2, 0, 0, 0),
    ]


async def test_importing_again_changes_nothing(graph: SocialGraph) -> None:
    batches = (
        ("games", [GameRow(1, "A", "https://x/a.png"), GameRow(2, "B")]),
        ("users", [UserRow(1, "Ann"), UserRow(2, None)]),
        ("friends", [FriendshipRow(1, 2), FriendshipRow(2, 1), FriendshipRow(2, 3)]),
        ("plays", [PlayRow(1, 1, 5), PlayRow(1, 1, 3), PlayRow(2, 9, 4)]),
    )
    states = []
    for _ in range(2):
        for kind, rows in batches:
            assert await graph.import_rows(kind, rows) == {}  # type: ignore[arg-type]  # each kind with its own rows
        edges = await graph.visibilities(2, [1, 3])
        states.append((await graph.totals(), await graph.catalogue(), edges, await graph.played_games(1)))
    assert states[0] == states[1]
    assert states[0][0] == (3, 3, 2, 2, 4)


async def test_plays_of_a_batch_stand_in_the_order_of_their_times(graph: SocialGraph, truth: Truth) -> None:
    rows = [PlayRow(1, 10), PlayRow(1, 11, 500), PlayRow(1, 12, 400), PlayRow(1, 11, 300), PlayRow(1, 13, 500)]
    await graph.import_rows("plays", rows)
    now = truth.clock.now_ms
    assert await graph.played_games(1) == [
        PlayedGame(2, 300),
        PlayedGame(3, 400),
        PlayedGame(4, 500),
        PlayedGame(1, now),
    ]
    await graph.import_rows("plays", [PlayRow(1, 13, 1), PlayRow(1, 14, 2)])  # a known play keeps its time and place
    assert (await graph.played_games(1))[2:] == [PlayedGame(4, 500), PlayedGame(1, now), PlayedGame(5, 2)]


async def test_a_bad_row_is_named_and_nothing_of_its_batch_is_kept(graph: SocialGraph) -> None:
    await graph.delete_user(4)
    before = await graph.totals()
    assert await graph.import_rows("users", [UserRow(1, "A"), UserRow(4, "B")]) == {1: "user 4 was deleted"}
    bad = await graph.import_rows("plays", [PlayRow(4, 1), PlayRow(1, 1), PlayRow(0, 1), PlayRow(1, 2**63)])
    assert set(bad) >= {2, 3}
    assert await graph.import_rows("plays", [PlayRow(4, 1), PlayRow(1, 1)]) == {0: "user 4 was deleted"}
    assert set(await graph.import_rows("plays", [PlayRow(1, 1, -1), PlayRow(1, 1, 2**62)])) == {0, 1}
    bad = await graph.import_rows("friends", [FriendshipRow(1, 2), FriendshipRow(3, 3), FriendshipRow(2, -1)])
    assert set(bad) == {1, 2}
    assert await graph.import_rows("friends", [FriendshipRow(1, 2), FriendshipRow(2, 4)]) == {1: "user 4 was deleted"}
    assert set(await graph.import_rows("games", [GameRow(5, "A"), GameRow(6, "half \ud800")])) == {1}
    assert await graph.totals() == before
    assert await graph.users([1, 2]) == {}


@pytest.mark.parametrize("kind", ["games", "users", "friends", "plays"])
async def test_an_empty_batch(graph: SocialGraph, kind: str) -> None:
    assert await graph.import_rows(kind, []) == {}  # type: ignore[arg-type]  # a Literal, parametrised
    assert await graph.totals() == (0, 0, 0, 0, 0)


async def test_names_of_an_import(graph: SocialGraph) -> None:
    await graph.import_rows("users", [UserRow(1, "Ann"), UserRow(2, "Bo")])
    await graph.import_rows("users", [UserRow(1, None), UserRow(2, "Bob")])
    assert await graph.users([1, 2]) == {1: User(1, "Ann"), 2: User(2, "Bob")}


async def test_a_batch_of_thousands(graph: SocialGraph) -> None:
    rows = [PlayRow(user, game) for user in range(1, 101) for game in range(user, user + 70)]
    assert await graph.import_rows("plays", rows) == {}
    edges = [FriendshipRow(user, friend) for user in range(1, 101) for friend in range(user + 1, 101)]
    assert await graph.import_rows("friends", edges) == {}
    assert await graph.totals() == (100, 169, 4_950, 7_000, 100 + 4_950)
    assert {user: len(friends) for user, friends in (await graph.friends([1, 50])).items()} == {1: 99, 50: 99}
    seen = await graph.seen_logs(50)
    assert len(seen) == 99
    assert all(len(log.log) == 280 for log in seen.values())
