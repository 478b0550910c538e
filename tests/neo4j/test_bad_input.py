"""Servers that are away or refuse, schemas from the future, and somebody else's data."""

from __future__ import annotations

import asyncio
import time

import pytest

from graph.neo4j import Neo4jGraph
from graph.social_graph import GameRow, TruthReplacedError, TruthUnavailableError, TruthUnreachableError
from tests.contract.truths import add_games
from tests.neo4j.conftest import cypher, make_graph
from tests.neo4j.proxy import LossyWire
from tests.neo4j.server import Access, free_port


async def refused(graph: Neo4jGraph) -> str:
    with pytest.raises(TruthUnavailableError) as error:
        await graph.open()
    assert "\n" not in str(error.value)
    return str(error.value)


async def test_an_unreachable_server_is_asked_for_a_while(access: Access) -> None:
    uri = f"bolt://127.0.0.1:{free_port()}"
    begun = time.monotonic()
    graph = make_graph(access, uri=uri, start_seconds=1.5)
    with pytest.raises(TruthUnreachableError, match=uri):
        await graph.open()
    assert time.monotonic() - begun > 1.5
    with pytest.raises(TruthUnavailableError):
        await graph.user_state(1)
    await graph.close()


async def test_a_server_that_comes_up_while_it_is_asked(access: Access) -> None:
    async with LossyWire(access.uri) as wire:
        wire.refusing = True
        graph = make_graph(access, uri=wire.uri)
        opening = asyncio.ensure_future(graph.open())
        await asyncio.sleep(0.3)
        assert not opening.done()
        wire.refusing = False
        await opening
        assert graph.truth_id
        await graph.close()


async def test_a_start_without_the_truth_can_be_made_again(access: Access) -> None:
    async with LossyWire(access.uri) as wire:
        wire.refusing = True
        graph = make_graph(access, uri=wire.uri, start_seconds=0)
        for _ in range(2):
            with pytest.raises(TruthUnreachableError):
                await graph.open()
        wire.refusing = False
        await graph.open()
        await graph.save_games([GameRow(1, "A")])
        assert (await graph.record_play(1, 1)).first
        await graph.close()


async def test_a_wrong_password(access: Access) -> None:
    said = await refused(make_graph(access, password="wrong"))
    assert "refuses the user or password" in said
    assert "wrong" not in said


async def test_a_database_that_does_not_exist(access: Access) -> None:
    assert "has no database nowhere" in await refused(make_graph(access, database="nowhere"))


@pytest.mark.parametrize(
    "uri", ["nonsense", "http://127.0.0.1:7687", "bolt://127.0.0.1:port", "bolt+ssc+x://a", "bolt://u:pw-secret@h"]
)
async def test_an_address_that_is_none(access: Access, uri: str) -> None:
    said = await refused(make_graph(access, uri=uri))
    assert "HEADCOUNT_NEO4J_URI" in said
    assert "pw-secret" not in said


@pytest.mark.usefixtures("graph")
async def test_a_newer_schema_is_refused_and_left_alone(access: Access) -> None:
    cypher(access, "MATCH (t:HeadcountTruth) SET t.schema = 99")
    assert "has schema version 99, newer than this program's" in await refused(make_graph(access))
    assert cypher(access, "MATCH (t:HeadcountTruth) RETURN t.schema") == [[99]]


async def test_somebody_elses_data_is_never_touched(access: Access) -> None:
    cypher(access, "MATCH (n) WHERE n:User OR n:Game OR n:Outbox DETACH DELETE n")
    cypher(access, "CREATE (:User {id: 1, name: 'theirs'})-[:FRIEND {state: 1}]->(:User {id: 2}), (:Game {id: 1})")
    theirs = "MATCH (n) WHERE n:User OR n:Game OPTIONAL MATCH (n)-[r]-() RETURN labels(n), properties(n), type(r)"
    before = sorted(map(str, cypher(access, theirs)))
    graph = make_graph(access)
    await graph.open()
    await add_games(graph, 2)
    await graph.record_play(1, 1)
    await graph.set_friendship(1, 2, True)
    await graph.delete_user(2)
    assert (await graph.totals()).users == 1
    assert (await graph.friend_page(1, 10)).total == 0
    await graph.close()
    assert sorted(map(str, cypher(access, theirs))) == before
    names = cypher(access, "SHOW CONSTRAINTS YIELD name, labelsOrTypes RETURN name, labelsOrTypes")
    ours = [(name, labels) for name, labels in names if str(name).startswith("headcount_")]
    assert len(ours) >= 6
    assert all(str(label).startswith("Headcount") for _, labels in ours for label in labels)
    cypher(access, "MATCH (n) WHERE n:User OR n:Game DETACH DELETE n")


async def test_opening_at_once_makes_one_truth(access: Access) -> None:
    graphs = [make_graph(access) for _ in range(4)]
    await asyncio.gather(*(graph.open() for graph in graphs))
    assert len({graph.truth_id for graph in graphs}) == 1
    assert cypher(access, "MATCH (t:HeadcountTruth) RETURN count(t)") == [[1]]
    for graph in graphs:
        await graph.close()
    assert cypher(access, "MATCH (w:HeadcountWriter) RETURN count(w)") == [[0]]


async def test_another_truth_stops_every_write_and_the_catalogue(graph: Neo4jGraph, access: Access) -> None:
    await add_games(graph, 2)
    cypher(access, "MATCH (t:HeadcountTruth) SET t.id = 'another'")
    for call in (
        graph.record_play(1, 1),
        graph.set_friendship(1, 2, True),
        graph.save_games([GameRow(9, "I")]),
        graph.delete_user(1),
        graph.acknowledge([]),
        graph.import_rows("users", []),
        graph.catalogue(),
        graph.catalogue(1),
    ):
        with pytest.raises(TruthReplacedError):
            await call
    assert (await graph.totals())[:2] == (0, 2)
