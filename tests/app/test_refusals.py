"""What the whole application refuses, how it says so, and that no store is asked first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.world import World
from tests.server.test_tokens import BAD

PAGE = "query($ids: [ID!]!) { games(ids: $ids) { id name friendsPlayed livePlayers } }"
HEARTBEAT = "mutation($s: ID!, $g: ID!) { heartbeat(sessionId: $s, gameId: $g) { live } }"
BEFRIEND = "mutation($u: ID!, $f: ID!) { addFriendship(userId: $u, friendId: $f) { friends } }"
NO_IDS = ["", "0", "-1", "+1", "01", "1.5", "1e3", "one", str(2**63), "9" * 200, "\u0663"]
FREE = 'redisRoundTrips;desc="0", graphQueries;desc="0"'


async def refused(world: World, query: str, variables: dict[str, Any] | None = None, **who: Any) -> dict[str, Any]:
    """The extensions of the one error of a reply for which no store was asked."""
    body = await world.post(query, variables, **who)
    assert len(body["errors"]) == 1, body
    assert body["extensions"]["cost"] == {"redisRoundTrips": 0, "graphQueries": 0}
    extensions: dict[str, Any] = body["errors"][0]["extensions"]
    return extensions


@pytest.fixture
async def games(headcount: World) -> World:
    await headcount.games(3)
    return headcount


async def test_what_is_no_id_is_bad_input_that_names_the_argument(games: World) -> None:
    bad = {"code": "BAD_INPUT"}
    for value in NO_IDS:
        assert await refused(games, PAGE, {"ids": ["1", value]}, user=7) == {**bad, "argument": "ids"}
        assert await refused(games, "query($i: ID!) { game(id: $i) { id } }", {"i": value}) == {**bad, "argument": "id"}
        play = "mutation($g: ID!) { recordPlay(gameId: $g) { first } }"
        assert await refused(games, play, {"g": value}, user=7) == {**bad, "argument": "gameId"}
        who = {"user": 7, "scopes": ["friendships:write"]}
        assert await refused(games, BEFRIEND, {"u": value, "f": "1"}, **who) == {**bad, "argument": "userId"}
        assert await refused(games, BEFRIEND, {"u": "1", "f": value}, **who) == {**bad, "argument": "friendId"}


async def test_what_is_no_session_id_is_bad_input(games: World) -> None:
    end = "mutation($s: ID!) { endSession(sessionId: $s) { ended } }"
    for value in ["", "x" * 65, "a b", "a:b", "\u00e9", "a\n", "{1}"]:
        expected = {"code": "BAD_INPUT", "argument": "sessionId"}
        assert await refused(games, HEARTBEAT, {"s": value, "g": "1"}, user=7) == expected
        assert await refused(games, end, {"s": value}, user=7) == expected


async def test_a_friendship_with_oneself_is_bad_input(games: World) -> None:
    extensions = await refused(games, BEFRIEND, {"u": "5", "f": "5"}, user=7, scopes=["friendships:write"])
    assert extensions["code"] == "BAD_INPUT"


async def test_pages_are_1_to_100_long(games: World) -> None:
    assert (await refused(games, PAGE, {"ids": []}))["code"] == "BAD_INPUT"
    for length in (101, 5_000):
        ids = [str(n) for n in range(1, length + 1)]
        expected = {"code": "LIMIT_EXCEEDED", "limit": 100, "actual": length}
        assert await refused(games, PAGE, {"ids": ids}, user=7) == expected


async def test_writing_needs_a_token_and_a_scope_and_nothing_is_written_without(games: World) -> None:
    assert (await refused(games, 'mutation { recordPlay(gameId: "1") { first } }'))["code"] == "UNAUTHENTICATED"
    assert (await refused(games, HEARTBEAT, {"s": "s", "g": "1"}))["code"] == "UNAUTHENTICATED"
    assert (await refused(games, BEFRIEND, {"u": "1", "f": "2"}))["code"] == "UNAUTHENTICATED"
    assert (await refused(games, BEFRIEND, {"u": "1", "f": "2"}, user=1))["code"] == "FORBIDDEN"
    save = 'mutation { saveGames(games: [{id: "9", name: "x"}]) { id } }'
    assert (await refused(games, save, user=1, scopes=["friendships:write"]))["code"] == "FORBIDDEN"
    totals = await games.application.graph.totals()
    assert (totals.users, totals.games, totals.friendships, totals.plays) == (0, 3, 0, 0)


async def test_an_unknown_game_is_null_at_its_path_and_the_others_are_whole(games: World) -> None:
    body = await games.post(PAGE, {"ids": ["1", "404", "3", "404"]}, user=7)
    assert [game and game["id"] for game in body["data"]["games"]] == ["1", None, "3", None]
    unknown = [error for error in body["errors"] if error["extensions"]["code"] == "NOT_FOUND"]
    assert [error["path"] for error in unknown] == [["games", 1], ["games", 3]]
    body = await games.post('{ game(id: "404") { id } }')
    assert body["data"] == {"game": None}
    assert [(error["path"], error["extensions"]["code"]) for error in body["errors"]] == [(["game"], "NOT_FOUND")]


async def test_a_bad_token_is_401_and_no_store_is_asked(games: World) -> None:
    for token in BAD.values():
        response = await games.http.post(
            "/graphql",
            json={"query": PAGE, "variables": {"ids": ["1"]}},
            headers={"Authorization": f"Bearer {token}"},
        )
        assert response.status_code == 401
        assert response.json()["errors"][0]["extensions"] == {"code": "UNAUTHENTICATED"}
        assert response.headers["server-timing"].endswith(FREE)


@pytest.mark.parametrize(
    "query",
    [
        "{" + " ".join(f'a{n}: game(id: "1") {{ name }}' for n in range(2000)) + "}",
        "{" + " ".join(f'a{n}: game(id: "1") {{ name }}' for n in range(100)) + "}",
        '{ game(id: "1") {' + " livePlayers" * 2000 + "} }",
        '{ game(id: "1") {' + " livePlayers" * 100 + "} }",
        "{ viewer " * 39 + "{ id }" + " }" * 39,
        "{ games(ids: [" + ",".join(f'"{n}"' for n in range(1, 5001)) + "]) { id } }",
    ],
    ids=["2,000 aliases", "100 aliases", "2,000 repeats", "100 repeats", "40 deep", "5,000 ids"],
)
async def test_too_much_is_refused_before_any_store_is_asked(games: World, query: str) -> None:
    extensions = await refused(games, query, user=7)
    assert extensions["code"] == "LIMIT_EXCEEDED"
    assert extensions["actual"] > extensions["limit"]


async def test_a_body_of_ten_megabytes_a_broken_one_and_another_content_type(games: World) -> None:
    json_type = {"Content-Type": "application/json"}
    for content, headers, status, code in [
        (b" " * 10_000_000, json_type, 413, "LIMIT_EXCEEDED"),
        (b'{"query": ', json_type, 400, "BAD_INPUT"),
        (b'{"query": "{ viewer { activityHidden } }"}', {"Content-Type": "text/plain"}, 415, "BAD_INPUT"),
    ]:
        response = await games.http.post("/graphql", content=content, headers=headers)
        assert response.status_code == status
        assert [error["extensions"]["code"] for error in response.json()["errors"]] == [code]
        assert response.headers["server-timing"].endswith(FREE)


async def test_two_operations_without_a_name_and_introspection_without_dev(games: World) -> None:
    two = await refused(games, 'query A { game(id: "1") { id } } query B { game(id: "2") { id } }')
    assert two == {"code": "BAD_INPUT", "argument": "operationName"}
    body = await games.post("{ __schema { types { name } } }")
    assert {error["extensions"]["code"] for error in body["errors"]} == {"GRAPHQL_VALIDATION_FAILED"}
    assert (await games.http.get("/dev/token?user=1", headers={"Host": "localhost"})).status_code == 404
