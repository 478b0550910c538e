"""The truths that the contract is tried on: how each adapter is made, opened again, and opened by another process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graph.neo4j import Neo4jGraph
from graph.social_graph import GameRow, SocialGraph
from graph.sqlite import SQLiteGraph
from tests.neo4j.server import Access, wipe


class Clock:
    """The server's time, which stands still until a test moves it."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    @property
    def now_ms(self) -> int:
        return int(self.now * 1000)


class Truth:
    """One truth, opened as often as a test likes; each opening writes as another process would."""

    def __init__(self, adapter: str, place: str) -> None:
        self.adapter = adapter
        self.place = place
        self.clock = Clock()
        self.fanout_max_friends = 2000  # what it is opened with next
        self._opened: list[SocialGraph] = []

    async def open(self) -> SocialGraph:
        graph = ADAPTERS[self.adapter](self.place, self.clock, self.fanout_max_friends)
        await graph.open()
        self._opened.append(graph)
        return graph

    async def close(self) -> None:
        for graph in self._opened:
            await graph.close()


def open_neo4j(place: str, clock: Callable[[], float], most: int) -> SocialGraph:
    access = Access(*json.loads(place))
    return Neo4jGraph(
        access.uri,
        user=access.user,
        password=access.password,
        database=access.database,
        fanout_max_friends=most,
        clock=clock,
    )


#: How an adapter is made from where its truth is.
ADAPTERS: dict[str, Callable[[str, Callable[[], float], int], SocialGraph]] = {
    "sqlite": lambda place, clock, most: SQLiteGraph(Path(place), clock=clock, fanout_max_friends=most),
    "neo4j": open_neo4j,
}


def make_truth(adapter: str, folder: Path, request: pytest.FixtureRequest | None = None) -> Truth:
    """A new, empty truth. The one in Neo4j is the only one of its database: what an earlier test left there goes."""
    if adapter == "neo4j":
        assert request is not None, "the server is a fixture"
        access: Access = request.getfixturevalue("neo4j_access")
        wipe(access)
        return Truth(adapter, json.dumps(access))
    return Truth(adapter, str(folder / "truth.sqlite3"))


async def add_games(graph: SocialGraph, count: int) -> None:
    """Games 1..count, whose numbers are their ids where the catalogue was empty."""
    await graph.save_games([GameRow(game_id, f"Game {game_id}") for game_id in range(1, count + 1)])


def unpack(log: bytes) -> list[int]:
    """The numbers of a packed log."""
    return [int.from_bytes(log[at : at + 4], "little") for at in range(0, len(log), 4)]
