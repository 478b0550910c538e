"""The truths of a storm: a file that outlives its processes, and a server that is struck like the rest."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

import neo4j

from settings import Settings
from tests.neo4j.server import Neo4jServer
from tests.storm.api_storm_processes import Victim


class StormTruth(Protocol):
    """Where the truth of a storm is."""

    victims: Sequence[Victim]

    def settings(self) -> dict[str, str]:
        """The settings that choose it, without their prefix."""

    async def left(self) -> int:
        """How many rows of the outbox are not published, or not acknowledged."""


class SQLiteStormTruth:
    """The file in the data folder, which the web process and the worker share."""

    victims: Sequence[Victim] = ()

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "truth.sqlite3"

    def settings(self) -> dict[str, str]:
        return {}

    async def left(self) -> int:
        query = "SELECT count(*) FROM outbox WHERE published_at_ms IS NULL OR acknowledged_batch IS NULL"
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=20)) as connection:
            ((count,),) = connection.execute(query)
        return int(count)


class Neo4jVictim:
    """A Neo4j of the storm's own."""

    name = "neo4j"

    def __init__(self, server: Neo4jServer) -> None:
        self._server = server

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)

    async def kill(self) -> None:
        await asyncio.to_thread(self._server.kill)

    async def stop(self) -> None:
        await asyncio.to_thread(self._server.stop)


class Neo4jStormTruth:
    """A Neo4j server."""

    def __init__(self, server: Neo4jServer) -> None:
        self.victims: Sequence[Victim] = (Neo4jVictim(server),)
        self._access = server.access

    def settings(self) -> dict[str, str]:
        access = self._access
        return {
            "neo4j_uri": access.uri,
            "neo4j_user": access.user,
            "neo4j_password": access.password,
            "neo4j_database": access.database,
        }

    async def left(self) -> int:
        query = "MATCH (o:HeadcountOutbox) WHERE o.published IS NULL OR o.batch IS NULL RETURN count(o)"
        access = self._access
        async with neo4j.AsyncGraphDatabase.driver(access.uri, auth=(access.user, access.password)) as driver:
            records, _, _ = await driver.execute_query(query, database_=access.database)
        return int(records[0][0])


def typed_settings(data_dir: Path, truth: StormTruth) -> Settings:
    """The settings for opening the truth in this process."""
    return Settings(_env_file=None, data_dir=data_dir, **truth.settings())  # type: ignore[arg-type,call-arg]  # pydantic checks them
