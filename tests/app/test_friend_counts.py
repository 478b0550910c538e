"""Friend counts through the API, cold and resident."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graph.social_graph import SeenLog
from tests.app.world import World, parametrize_truths, settings_of_truth
from tests.waiting import until

A, B, C, D, STRANGER = 11, 12, 13, 14, 99


pytest_generate_tests = parametrize_truths


@pytest.fixture
def truth_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return settings_of_truth(request.param, request)


@pytest.fixture
async def start(request: pytest.FixtureRequest, headcount: World) -> World:
    """A world where A has friends B, C and D, and A's view is there from before, or not."""
    await headcount.games(3)
    for friend in (B, C, D):
        await headcount.befriend(A, friend)
    if request.param == "resident":
        await headcount.resident(A)
    return headcount


async def test_counts_friends_who_played_and_never_the_viewer(start: World) -> None:
    for user in (A, B, C, STRANGER):
        assert await start.play(user, 1)
    await start.drained()
    assert await start.friends_played(A, [1, 2]) == [2, 0]


async def test_a_former_friend_leaves_at_once_and_stays_with_others(start: World) -> None:
    await start.befriend(B, C)
    await start.play(B, 1)
    await start.drained()
    assert await start.friends_played(A, [1]) == [1]
    await start.part(A, B)
    await start.drained()
    assert await start.friends_played(A, [1]) == [0]
    assert await start.friends_played(C, [1]) == [1]
    await start.befriend(A, B)
    await start.befriend(B, A)
    await start.drained()
    assert await start.friends_played(A, [1]) == [1]


async def test_new_friends_gain_each_others_distinct_games(start: World) -> None:
    games = await start.games(40)
    for game in games[:30]:
        await start.play(A, game)
        await start.play(A, game)
    for game in games[20:]:
        await start.play(STRANGER, game)
    await start.resident(STRANGER)
    await start.befriend(A, STRANGER)
    await start.drained()
    assert await start.friends_played(A, games) == [0] * 20 + [1] * 20
    assert await start.friends_played(STRANGER, games) == [1] * 30 + [0] * 10


async def test_without_a_token_friend_fields_are_null_and_live_counts_work(start: World) -> None:
    data = await start.ask(
        """{ games(ids: ["1"]) { friendsPlayed friendsPlayedLabel friendsPlayedAsOf livePlayers }
        viewer { user { id } } }"""
    )
    assert data == {
        "games": [{"friendsPlayed": None, "friendsPlayedLabel": None, "friendsPlayedAsOf": None, "livePlayers": 0}],
        "viewer": None,
    }


async def test_the_same_game_twice_is_answered_twice_in_order(start: World) -> None:
    await start.play(B, 2)
    await start.drained()
    body = await start.post(
        '{ a: games(ids: ["2", "1", "2"]) { id friendsPlayed } b: game(id: "2") { friendsPlayed } }', user=A
    )
    assert [(game["id"], game["friendsPlayed"]) for game in body["data"]["a"]] == [("2", 1), ("1", 0), ("2", 1)]
    assert body["data"]["b"] == {"friendsPlayed": 1}


async def test_one_unknown_id_leaves_the_others_whole(start: World) -> None:
    ids = ["1", "404", "2", "3"]
    body = await start.post("query($ids: [ID!]!) { games(ids: $ids) { id friendsPlayed } }", {"ids": ids}, user=A)
    assert [game and game["id"] for game in body["data"]["games"]] == ["1", None, "2", "3"]
    assert [game["friendsPlayed"] for game in body["data"]["games"] if game] == [0, 0, 0]
    assert [(error["path"], error["extensions"]["code"]) for error in body["errors"]] == [(["games", 1], "NOT_FOUND")]


async def test_the_same_play_a_thousand_times_at_once_is_one_play(start: World) -> None:
    firsts = await asyncio.gather(*(start.play(B, 1) for _ in range(1000)))
    assert sum(firsts) == 1
    await start.drained()
    assert await start.friends_played(A, [1]) == [1]
    assert len(await start.application.graph.played_games(B)) == 1


async def test_somebody_never_seen_has_zeros_and_no_errors(start: World) -> None:
    body = await start.post('{ games(ids: ["1", "2"]) { friendsPlayed } }', user=2**63 - 1)
    assert "errors" not in body
    assert [game["friendsPlayed"] for game in body["data"]["games"]] == [0, 0]
    assert (await start.application.graph.totals()).users == 4  # reading writes nobody


async def test_two_users_at_once_never_see_each_others_counts(start: World) -> None:
    await start.befriend(STRANGER, B)
    await start.befriend(STRANGER, C)
    await start.play(B, 1)
    await start.play(C, 1)
    await start.play(D, 1)
    await start.drained()

    async def count(user: int) -> int | None:
        return (await start.friends_played(user, [1]))[0]

    counts = await asyncio.gather(*(count(A if i % 2 else STRANGER) for i in range(200)))
    assert counts == [3 if i % 2 else 2 for i in range(200)]


async def test_a_play_shows_on_a_friends_page_without_anyone_asking(start: World) -> None:
    assert await start.friends_played(A, [3]) == [0]
    await start.play(D, 3)

    async def shown() -> bool:
        return await start.friends_played(A, [3]) == [1]

    await until(shown)


async def test_a_client_that_goes_away_leaves_the_others_their_answers(
    start: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start.play(B, 1)
    await start.drained()
    await start.application.views.evict([A])  # so that all of them wait for one read of the truth
    graph = start.application.graph
    seen_logs, reading, go_on = graph.seen_logs, asyncio.Event(), asyncio.Event()

    async def slow(viewer_id: int) -> dict[int, SeenLog]:
        reading.set()
        await go_on.wait()
        return await seen_logs(viewer_id)

    monkeypatch.setattr(graph, "seen_logs", slow)
    asked = [asyncio.create_task(start.friends_played(A, [1, 2])) for _ in range(20)]
    await reading.wait()
    for task in asked[:10]:
        task.cancel()
    go_on.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[:10])
    assert answers[10:] == [[1, 0]] * 10
