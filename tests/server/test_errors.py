from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Edge, MakeEdge, only_error


async def test_an_unknown_id_is_null_with_an_error_at_its_path_and_the_others_are_whole(edge: Edge) -> None:
    ids = [*map(str, range(1, 30)), "5000", "5000"]
    body = (await edge.post("query($ids: [ID!]!) { games(ids: $ids) { id } }", variables={"ids": ids})).json()
    assert [game and game["id"] for game in body["data"]["games"]] == [*ids[:29], None, None]
    assert [error["path"] for error in body["errors"]] == [["games", 29], ["games", 30]]
    assert body["errors"][0]["extensions"] == {"code": "NOT_FOUND", "argument": "ids"}


async def test_thirty_leaves_without_a_store_are_one_error_with_the_first_path(edge: Edge) -> None:
    query = "query($ids: [ID!]!) { games(ids: $ids) { friendsPlayed livePlayers again: friendsPlayed } }"
    body = (await edge.post(query, variables={"ids": [str(n) for n in range(1, 31)]})).json()
    assert all(game == {"friendsPlayed": None, "livePlayers": 7, "again": None} for game in body["data"]["games"])
    assert body["errors"] == [
        {
            "message": "friendsPlayed is not available just now",
            "locations": [{"line": 1, "column": 42}],
            "path": ["games", 0, "friendsPlayed"],
            "extensions": {"code": "UNAVAILABLE", "signal": "friendsPlayed"},
        }
    ]


async def test_a_fault_of_ours_is_masked_and_the_log_has_it_under_the_request_id(
    edge: Edge, lines: list[dict[str, Any]]
) -> None:
    response = await edge.post("{ a: fault b: fault }", headers={"X-Request-Id": "r-1"})
    assert response.json() == {
        "data": {"a": None, "b": None},
        "errors": [
            {
                "message": "Internal error",
                "locations": [{"line": 1, "column": 3}],
                "path": ["a"],
                "extensions": {"code": "INTERNAL", "requestId": "r-1"},
            }
        ],
    }
    assert "secret detail" not in response.text
    faults = [line for line in lines if line["log_level"] == "error"]
    assert [line["request_id"] for line in faults] == ["r-1"]
    assert str(faults[0]["exc_info"]) == "secret detail"
    assert [line["codes"] for line in lines if line["event"] == "graphql"] == [["INTERNAL"]]


async def test_faults_that_differ_are_logged_apart_and_few(edge: Edge, lines: list[dict[str, Any]]) -> None:
    query = "{" + " ".join(f'f{n}: fault(text: "{n}")' for n in range(50)) + "}"
    only_error(await edge.post(query))
    faults = [line for line in lines if line["log_level"] == "error"]
    assert [str(line["exc_info"]) for line in faults] == ["0", "1", "2"]
    assert faults[0]["faults"] == 50


async def test_what_the_truth_refuses_has_the_words_of_the_api(edge: Edge) -> None:
    assert only_error(await edge.post('{ game(id: "5000") { id } }'))["extensions"]["code"] == "NOT_FOUND"
    away = only_error(await edge.post("{ truth }"))
    assert away["extensions"] == {"code": "UNAVAILABLE", "signal": "truth"}
    assert "/srv" not in away["message"]
    theirs = only_error(await edge.post('{ deleted(id: "7") }', headers=edge.bearer(42)))
    assert theirs["extensions"]["code"] == "NOT_FOUND"
    own = only_error(await edge.post('{ deleted(id: "42") }', headers=edge.bearer(42)))
    assert own["extensions"]["code"] == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    ("query", "variables", "argument"),
    [
        ("query($n: Int!) { first(first: $n) }", {"n": "x"}, "n"),
        ("query($n: Int!) { first(first: $n) }", {}, "n"),
        ("query($n: Int!) { first(first: $n) }", {"n": None}, "n"),
        ("query($n: Int!) { first(first: $n) }", {"n": 2**31}, "n"),
        ("query($n: Int!) { first(first: $n) }", {"n": 1.5}, "n"),
        ("query($ids: [ID!]!) { games(ids: $ids) { id } }", {"ids": [None, True, {}] * 1000}, "ids"),
        ("query($ids: [ID!]!) { games(ids: $ids) { id } }", {"ids": {"a": 1}}, "ids"),
        ("mutation($g: [GameInput!]!) { saveGames(games: $g) }", {"g": [{"id": "1", "nam": "x"}]}, "g"),
        ("query($n: Int = 5) { first(first: $n) }", {"n": None}, "first"),
        ('{ games(ids: ["1", "x"]) { id } }', {}, "ids"),
        ("{ games(ids: []) { id } }", {}, "ids"),
    ],
)
async def test_bad_input_is_one_error_that_names_the_argument(
    edge: Edge, query: str, variables: dict[str, Any], argument: str
) -> None:
    error = only_error(await edge.post(query, variables=variables))
    assert error["extensions"] == {"code": "BAD_INPUT", "argument": argument}
    assert argument in error["message"]
    assert len(error["message"]) < 450
    assert edge.store.asked == 0


SUGGESTIVE = [
    ("{ gamez { id } }", None),
    ("{ first(frist: 3) }", None),
    ("query($n: Itn) { first(first: $n) }", None),
    ('mutation { saveGames(games: [{id: "1", name: "x", nam: "y"}]) }', None),
    ("{ ...G } fragment G on Gaem { id }", None),
    ("query($g: [GameInput!]!) { __typename }", None),
    ("mutation($g: [GameInput!]!) { saveGames(games: $g) }", {"g": [{"id": "1", "name": "x", "nam": "y"}]}),
    ("{ first @skop(if: true) }", None),
]


async def test_nothing_of_the_schema_is_suggested(make_edge: MakeEdge) -> None:
    closed, open_ = make_edge(), make_edge(suggestions=True)
    told = 0
    for query, variables in SUGGESTIVE:
        assert "Did you mean" not in (await closed.post(query, variables=variables)).text
        told += "Did you mean" in (await open_.post(query, variables=variables)).text
    assert told >= 4


@pytest.mark.parametrize(
    "query",
    [
        "{ __schema { types { name } } }",
        '{ __type(name: "Game") { name } }',
        "{ ...I } fragment I on Query { __schema { description } }",
    ],
)
async def test_introspection_is_refused_unless_it_is_on(make_edge: MakeEdge, query: str) -> None:
    error = (await make_edge().post(query)).json()["errors"][0]
    assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}
    assert "errors" not in (await make_edge(introspection=True).post(query)).json()
    assert (await make_edge().post("{ __typename }")).json() == {"data": {"__typename": "Query"}}


async def test_every_error_of_a_document_full_of_them_has_a_code_and_they_are_few(edge: Edge) -> None:
    body = (await edge.post("{" + " ".join(f"nothing{n}" for n in range(200)) + "}")).json()
    assert 1 <= len(body["errors"]) <= 5
    assert {error["extensions"]["code"] for error in body["errors"]} == {"GRAPHQL_VALIDATION_FAILED"}
