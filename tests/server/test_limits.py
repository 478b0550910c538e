from __future__ import annotations

from typing import Any

import pytest
from graphql import get_introspection_query, parse
from hypothesis import given
from hypothesis import strategies as st

from resolvers.errors import LimitExceeded
from server.limits import Limits
from tests.server.conftest import Edge, MakeEdge, only_error

# A page with everything on it, its fields in fragments, as a client composes them.
PAGE = """
query Page($ids: [ID!]!, $cap: Int! = 50, $first: Int! = 6) {
  viewer { user { id name } activityHidden }
  games(ids: $ids) { ...Card ...Friends ...Live ...Board }
}
fragment Card on Game { id name imageUrl }
fragment Friends on Game {
  id
  friendsPlayed friendsPlayedLabel(cap: $cap) friendsPlayedAsOf
  friendsWhoPlayed(first: $first) { ...FriendPage }
  friendsPlayingNow(first: $first) { ...FriendPage }
}
fragment FriendPage on FriendConnection {
  totalCount moreCount nodes { ...Person } edges { cursor node { ...Person } } pageInfo { ...Turn }
}
fragment Person on User { id name }
fragment Turn on PageInfo { hasNextPage hasPreviousPage startCursor endCursor }
fragment Live on Game { id livePlayers livePlayersLabel livePlayersAsOf livePeople uniquePlayersToday }
fragment Board on Game {
  id
  leaderboard(period: WEEKLY) {
    season startsAt endsAt frozen rebuilding size
    top(first: 10) { rank tiedRank user { ...Person } score achievedAt }
    around(radius: 5) { rank user { ...Person } score }
    friends { friendRank user { ...Person } score }
  }
}
"""
DEEP_40 = '{ game(id: "1") {' + " twin {" * 38 + " id " + "}" * 38 + "} }"
HOSTILE: dict[str, dict[str, Any]] = {
    "2,000 aliases": {"query": "{" + " ".join(f'a{n}: game(id: "1") {{ id }}' for n in range(2000)) + "}"},
    "100 aliases": {"query": "{" + " ".join(f'a{n}: game(id: "1") {{ id }}' for n in range(100)) + "}"},
    "2,000 repeated fields": {"query": '{ game(id: "1") {' + " id" * 2000 + "} }"},
    "100 repeated fields": {"query": '{ game(id: "1") {' + " id" * 100 + "} }"},
    "100 repeats by fragments": {"query": '{ game(id: "1") {' + "...F " * 51 + "} } fragment F on Game { id name }"},
    "100 inline fragments": {"query": '{ game(id: "1") {' + "... on Game { id } " * 100 + "} }"},
    "a 40-deep query": {"query": DEEP_40},
    "a deep query by fragments": {
        "query": '{ game(id: "1") { ...F0 } }'
        + "".join(f" fragment F{n} on Game {{ twin {{ ...F{n + 1} }} }}" for n in range(20))
        + " fragment F20 on Game { id }"
    },
    "2 to the 14 fields by fragments": {
        "query": '{ game(id: "1") { ...F0 } }'
        + "".join(f" fragment F{n} on Game {{ ... on Game {{ ...F{n + 1} }} ...F{n + 1} }}" for n in range(14))
        + " fragment F14 on Game { id }"
    },
    "5,000 ids in a variable": {
        "query": "query($ids: [ID!]!) { games(ids: $ids) { id } }",
        "variables": {"ids": [str(n) for n in range(1, 5001)]},
    },
    "5,000 ids in the text": {"query": "{ games(ids: [" + ",".join(f'"{n}"' for n in range(5000)) + "]) { id } }"},
    "101 ids": {"query": "{ games(ids: [" + ",".join(f'"{n}"' for n in range(101)) + "]) { id } }"},
    "700 nested lists": {"query": "{ games(ids: " + "[" * 700 + "]" * 700 + ") { id } }"},
    "20,000 comments": {"query": "#\n" * 20_000 + "{ first }"},
    "a 10 MB body": {"query": "{ first }" + " " * 10_000_000},
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_too_much_is_refused_clearly_before_any_store_is_asked_and_nothing_of_it_is_held(
    edge: Edge, what: str
) -> None:
    response = await edge.post(**HOSTILE[what], headers={"X-Headcount-Cost": "1"})
    error = only_error(response)
    assert error["extensions"]["code"] == "LIMIT_EXCEEDED"
    assert error["extensions"]["actual"] > error["extensions"]["limit"] > 0
    assert str(error["extensions"]["limit"]) in error["message"]
    assert edge.store.asked == 0
    if "ids" not in what or "text" in what:
        assert edge.app.operations.documents.held == 0
    assert 'redisRoundTrips;desc="0", graphQueries;desc="0"' in response.headers["server-timing"]


async def test_the_limit_and_what_was_asked_are_said(edge: Edge) -> None:
    error = only_error(await edge.post(DEEP_40))
    assert error["extensions"] == {"code": "LIMIT_EXCEEDED", "limit": 15, "actual": 40}
    assert error["message"] == "depth: 40 is over the limit of 15"


async def test_a_flood_of_refused_and_of_strange_documents_leaves_the_good_ones_held(make_edge: MakeEdge) -> None:
    edge = make_edge()
    documents = edge.app.operations.documents
    documents._held.capacity = 2_000  # so that the flood fills it
    good = [f'query Good{n} {{ game(id: "1") {{ id }} }}' for n in range(20)]
    for query in [*good, *good]:
        assert "errors" not in (await edge.post(query)).json()
    prepared = documents.prepared
    assert prepared == 20
    for n in range(100):
        await edge.post("{ broken" + str(n))
        await edge.post(f"{{ nothing{n} }}")
        await edge.post(f"query A{n} {{ first }}" + " #" + "x" * 20_000)
    assert documents.prepared == prepared + 300
    for query in good:
        assert "errors" not in (await edge.post(query)).json()
    assert documents.prepared == prepared + 300, "a good document was parsed again"
    assert documents._held.weight <= 2 * documents._held.capacity


def test_a_whole_page_and_the_editor_s_introspection_are_far_within() -> None:
    limits = Limits()
    five = PAGE + "".join(f"query P{n}($ids: [ID!]!) {{ a{n}: games(ids: $ids) {{ ...Card }} }}" for n in range(5))
    for text in (PAGE, five, get_introspection_query(input_value_deprecation=True, directive_is_repeatable=True)):
        assert limits.count_tokens(text) < limits.tokens / 2
        limits.check(parse(text))


async def test_five_aliases_of_a_page_are_within(edge: Edge) -> None:
    fields = "{ id name livePlayers x: id y: name z: livePlayers }"
    query = "query($ids: [ID!]!) {" + " ".join(f"p{n}: games(ids: $ids) {fields}" for n in range(5)) + "}"
    body = (await edge.post(query, variables={"ids": [str(n) for n in range(1, 101)]})).json()
    assert "errors" not in body
    assert all(len(page) == 100 for page in body["data"].values())


@pytest.mark.parametrize(
    "text",
    [
        'fragment A on Game { ...B } fragment B on Game { ...A } { game(id: "1") { ...A } }',
        'fragment A on Game { twin { ...A } } { game(id: "1") { ...A } }',
        "{ ...Nowhere }",
    ],
)
async def test_fragments_in_circles_or_missing_are_left_to_validation(edge: Edge, text: str) -> None:
    body = (await edge.post(text)).json()
    assert {error["extensions"]["code"] for error in body["errors"]} == {"GRAPHQL_VALIDATION_FAILED"}


@given(st.text(alphabet='{}[]()"\\ab1 #\n\r:.$@!&|=,…\u2028', max_size=200))
def test_no_text_slips_past_the_count(text: str) -> None:
    """What the parser takes has at most one token more a spread than was counted."""
    limits = Limits(tokens=30, brackets=10)
    try:
        counted = limits.count_tokens(text)
    except LimitExceeded:
        return
    try:
        document = parse(text)
    except Exception:
        return
    token, parsed = document.loc.start_token if document.loc else None, 0
    while token is not None:
        parsed += token.kind.value not in {"<SOF>", "<EOF>"}
        token = token.next
    assert parsed <= 2 * counted
