"""The Neo4j of the tests, empty, and a graph in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import neo4j
import pytest

from graph.neo4j import Neo4jGraph
from tests.neo4j.server import Access, wipe


@pytest.fixture
def access(neo4j_access: Access) -> Access:
    """Where the server is; nothing of Headcount's is there."""
    wipe(neo4j_access)
    return neo4j_access


def make_graph(access: Access, **options: Any) -> Neo4jGraph:
    """A graph, not yet open; options as `Neo4jGraph` takes them, `uri` too."""
    chosen: dict[str, Any] = access._asdict() | options
    return Neo4jGraph(chosen.pop("uri"), **chosen)


def cypher(access: Access, text: str, **parameters: object) -> list[list[Any]]:
    """The records of a statement that is not Headcount's own."""
    with neo4j.GraphDatabase.driver(access.uri, auth=(access.user, access.password)) as driver:
        records, _, _ = driver.execute_query(text, parameters, database_=access.database)
        return [record.values() for record in records]


@pytest.fixture
async def graph(access: Access) -> AsyncIterator[Neo4jGraph]:
    """Open, and empty."""
    graph = make_graph(access)
    await graph.open()
    yield graph
    await graph.close()
