"""The catalogue and the viewer's lists, page by page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resolvers.cursors import encode_cursor
from tests.app.world import World, world
from tests.waiting import until

CATALOG = """query($first: Int! = 30, $after: String, $search: String, $by: CatalogOrder! = LIVE_PLAYERS) {
    catalog(first: $first, after: $after, search: $search, orderBy: $by) {
        totalCount nodes { id name } edges { cursor node { id } }
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
    }
}"""
SAVE = "mutation($games: [GameInput!]!) { saveGames(games: $games) { id name imageUrl } }"
CATALOG_WRITE = ["catalog:write"]
TOO_FAR = encode_cursor("catalog by live players", "x", 2**63, 1)


async def page(headcount: World, **variables: Any) -> dict[str, Any]:
    """One page of the catalogue; its parts agree with each other."""
    found: dict[str, Any] = (await headcount.ask(CATALOG, variables))["catalog"]
    assert [node["id"] for node in found["nodes"]] == [edge["node"]["id"] for edge in found["edges"]]
    info = found["pageInfo"]
    if found["edges"]:
        assert (info["startCursor"], info["endCursor"]) == (found["edges"][0]["cursor"], found["edges"][-1]["cursor"])
    else:
        assert (info["startCursor"], info["endCursor"]) == (None, None)
    assert info["hasPreviousPage"] == ("after" in variables)
    return found


async def all_ids(headcount: World, **variables: Any) -> list[int]:
    """The whole catalogue, page by page."""
    found = await page(headcount, **variables)
    ids = [int(node["id"]) for node in found["nodes"]]
    while found["pageInfo"]["hasNextPage"]:
        found = await page(headcount, **variables, after=found["pageInfo"]["endCursor"])
        ids += [int(node["id"]) for node in found["nodes"]]
    assert found["totalCount"] == len(ids)
    return ids


async def named(headcount: World, *names: str) -> None:
    """Save games 1, 2 … with these names."""
    games = [{"id": str(place), "name": name} for place, name in enumerate(names, 1)]
    saved = (await headcount.ask(SAVE, {"games": games}, user=1, scopes=CATALOG_WRITE))["saveGames"]
    assert [(game["id"], game["name"]) for game in saved] == [(game["id"], game["name"]) for game in games]


async def play_live(headcount: World, game: int, sessions: int) -> None:
    """Some live sessions in a game, waited for."""
    for user in range(1, sessions + 1):
        await headcount.application.live_sessions.beat(user + game * 1000, "s", game)
    await until(lambda: headcount.application.live_totals.sessions(game) == sessions)


async def test_most_live_players_first_then_the_others_by_id(headcount: World) -> None:
    await headcount.games(10)
    await play_live(headcount, 7, 3)
    await play_live(headcount, 4, 5)
    await play_live(headcount, 9, 3)
    for first in (1, 3, 10, 100):
        assert await all_ids(headcount, first=first) == [4, 7, 9, 1, 2, 3, 5, 6, 8, 10]


async def test_a_cursor_pins_the_order_while_counts_move_in_every_process(
    headcount: World, tmp_path: Path, redis_url: str
) -> None:
    await headcount.games(10)
    await play_live(headcount, 7, 3)
    first = await page(headcount, first=4)
    await play_live(headcount, 10, 9)
    rest = await page(headcount, first=100, after=first["pageInfo"]["endCursor"])
    assert [int(node["id"]) for node in [*first["nodes"], *rest["nodes"]]] == [7, 1, 2, 3, 4, 5, 6, 8, 9, 10]

    async def in_redis() -> bool:
        return bool(await headcount.application.redis.client.keys("co:*"))

    await until(in_redis)
    async with world(tmp_path, redis_url, workers=False) as other:
        assert await page(other, first=100, after=first["pageInfo"]["endCursor"]) == rest


async def test_by_name_without_regard_to_case_and_a_cursor_outlives_changes(headcount: World) -> None:
    await named(headcount, "beta", "Alpha", "gamma", "ALPHA", "Éclair", "delta")
    assert await all_ids(headcount, by="NAME", first=2) == [2, 4, 1, 6, 3, 5]
    first = await page(headcount, by="NAME", first=3)
    await headcount.ask(SAVE, {"games": [{"id": "1", "name": "zeta"}]}, user=1, scopes=CATALOG_WRITE)
    rest = await page(headcount, by="NAME", first=100, after=first["pageInfo"]["endCursor"])
    assert [node["id"] for node in rest["nodes"]] == ["6", "3", "1", "5"]


@pytest.mark.parametrize(
    ("search", "found"),
    [("", 6), ("%", 1), ("_", 1), ("\U0001f409", 1), ("שלום", 1), ("ALPHA", 2), ("'; --", 0), ("\\", 0)],
)
async def test_search_takes_every_character_as_it_is(headcount: World, search: str, found: int) -> None:
    await named(headcount, "100 % Alpha", "snake_case", "Dragon \U0001f409", "שלום", "alpha", "other")
    for by in ("LIVE_PLAYERS", "NAME"):
        assert len(await all_ids(headcount, search=search, by=by, first=1)) == found


async def test_bad_pages_are_refused(headcount: World) -> None:
    await headcount.games(3)
    by_name = (await page(headcount, by="NAME", first=1))["pageInfo"]["endCursor"]
    refused: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"first": 0}, {"code": "BAD_INPUT", "argument": "first"}),
        ({"first": -1}, {"code": "BAD_INPUT", "argument": "first"}),
        ({"first": 101}, {"code": "LIMIT_EXCEEDED", "limit": 100, "actual": 101}),
        ({"search": "x" * 10_000}, {"code": "LIMIT_EXCEEDED", "limit": 200, "actual": 10_000}),
        ({"after": "made up"}, {"code": "BAD_INPUT", "argument": "after"}),
        ({"after": ""}, {"code": "BAD_INPUT", "argument": "after"}),
        ({"after": by_name}, {"code": "BAD_INPUT", "argument": "after"}),
        (
            {"after": encode_cursor("catalog by live players", "x", 2**63, 1)},
            {"code": "BAD_INPUT", "argument": "after"},
        ),
        ({"after": "x" * 5_000}, {"code": "BAD_INPUT", "argument": "after"}),
    ]
    for variables, extensions in refused:
        body = await headcount.post(CATALOG, variables)
        assert [error["extensions"] for error in body["errors"]] == [extensions], variables


async def test_saving_games_is_all_or_nothing(headcount: World) -> None:
    await named(headcount, "One")
    for games, argument in [
        ([], "games"),
        ([{"id": "2", "name": " "}], "games.name"),
        ([{"id": "2", "name": "x" * 201}], "games.name"),
        ([{"id": "2", "name": "Two"}, {"id": "2", "name": "Two"}], "games"),
        ([{"id": "2", "name": "Two"}, {"id": "0", "name": "None"}], "games.id"),
        ([{"id": "2", "name": "T\0wo"}], "games.name"),
        ([{"id": "2", "name": "Two", "imageUrl": "javascript:alert(1)"}], "games.imageUrl"),
        ([{"id": "2", "name": "Two", "imageUrl": "http://"}], "games.imageUrl"),
        ([{"id": "2", "name": "Two", "imageUrl": "http://a b/"}], "games.imageUrl"),
        ([{"id": "2", "name": "Two", "imageUrl": "http://a/\n"}], "games.imageUrl"),
    ]:
        body = await headcount.post(SAVE, {"games": games}, user=1, scopes=CATALOG_WRITE)
        assert body["errors"][0]["extensions"]["code"] == "BAD_INPUT"
        assert body["errors"][0]["extensions"]["argument"] == argument
    many = [{"id": str(id_), "name": "x"} for id_ in range(1, 102)]
    body = await headcount.post(SAVE, {"games": many}, user=1, scopes=CATALOG_WRITE)
    assert body["errors"][0]["extensions"] == {"code": "LIMIT_EXCEEDED", "limit": 100, "actual": 101}
    body = await headcount.post(SAVE, {"games": many[:1]}, user=1)
    assert body["errors"][0]["extensions"] == {"code": "FORBIDDEN"}
    assert await all_ids(headcount) == [1]


async def test_a_game_saved_elsewhere_is_found_before_the_next_refresh(
    headcount: World, tmp_path: Path, redis_url: str
) -> None:
    async with world(tmp_path, redis_url, workers=False) as other:
        await named(other, "New")
        assert (await headcount.ask('{ game(id: "1") { name } }'))["game"] == {"name": "New"}
        assert await headcount.play(5, 1)


async def test_the_viewers_friends_and_games(headcount: World) -> None:
    await headcount.games(7)
    for friend in (9, 3, 5):
        await headcount.befriend(4, friend)
    for game in (2, 7, 1, 2):
        await headcount.play(4, game)
    query = """query($f: String, $g: String) { viewer {
        user { id name }
        friends(first: 2, after: $f) { totalCount nodes { id } pageInfo { hasNextPage endCursor } }
        games(first: 2, after: $g) { totalCount nodes { id name } pageInfo { hasNextPage endCursor } }
    } }"""
    viewer = (await headcount.ask(query, user=4))["viewer"]
    assert viewer["user"] == {"id": "4", "name": None}
    assert [node["id"] for node in viewer["friends"]["nodes"]] == ["3", "5"]
    assert [node["id"] for node in viewer["games"]["nodes"]] == ["1", "7"]
    await headcount.play(4, 3)  # pages go on where they were though the list grew in front
    cursors = {
        "f": viewer["friends"]["pageInfo"]["endCursor"],
        "g": viewer["games"]["pageInfo"]["endCursor"],
    }
    viewer = (await headcount.ask(query, cursors, user=4))["viewer"]
    assert [node["id"] for node in viewer["friends"]["nodes"]] == ["9"]
    assert [node["id"] for node in viewer["games"]["nodes"]] == ["2"]
    assert (viewer["friends"]["totalCount"], viewer["games"]["totalCount"]) == (3, 4)
    assert not viewer["friends"]["pageInfo"]["hasNextPage"]
    assert not viewer["games"]["pageInfo"]["hasNextPage"]


@pytest.mark.parametrize(
    ("count", "cap", "label"),
    [(0, 50, "0"), (1, 1, "1"), (2, 1, "1+"), (3, 50, "3")],
)
async def test_friend_labels(headcount: World, count: int, cap: int, label: str) -> None:
    await headcount.games(1)
    for friend in range(2, 2 + count):
        await headcount.befriend(1, friend)
        await headcount.play(friend, 1)
    query = 'query($cap: Int!) { game(id: "1") { friendsPlayedLabel(cap: $cap) } }'
    assert (await headcount.ask(query, {"cap": cap}, user=1))["game"]["friendsPlayedLabel"] == label
    for wrong in (0, -1, 1_000_001):
        body = await headcount.post(query, {"cap": wrong}, user=1)
        assert body["errors"][0]["extensions"] == {"code": "BAD_INPUT", "argument": "cap"}
