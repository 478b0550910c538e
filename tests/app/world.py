"""The whole application in one process, on real stores, and clients that ask it over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import Application, Options
from graph.social_graph import GameRow
from server.tokens import Tokens
from settings import Settings
from tests.neo4j.server import Access, wipe
from tests.waiting import until

TRUTHS = ("sqlite", "neo4j")
#: Which truth, and whether there are views from before. A page without one is what reads the truth most.
STARTS = (("sqlite", "cold"), ("sqlite", "resident"), ("neo4j", "cold"))
SECRET = b"a secret of the tests, 32 bytes long"

PAGE = "query Page($ids: [ID!]!) { games(ids: $ids) { id name friendsPlayed } }"


class World:
    """An application and ways to ask it."""

    def __init__(self, application: Application, http: httpx.AsyncClient, tokens: Tokens) -> None:
        self.application = application
        self.http = http
        self.tokens = tokens

    async def post(
        self,
        query: str,
        variables: Mapping[str, object] | None = None,
        *,
        user: int | None = None,
        scopes: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The whole reply to a query."""
        headers = {"X-Headcount-Cost": "1"}
        if user is not None:
            headers["Authorization"] = f"Bearer {self.tokens.sign(user, scopes, 600)}"
        response = await self.http.post("/graphql", json={"query": query, "variables": variables}, headers=headers)
        body: dict[str, Any] = response.json()
        return body

    async def ask(
        self,
        query: str,
        variables: Mapping[str, object] | None = None,
        *,
        user: int | None = None,
        scopes: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The data of a reply without errors."""
        body = await self.post(query, variables, user=user, scopes=scopes)
        assert "errors" not in body, body["errors"]
        data: dict[str, Any] = body["data"]
        return data

    async def games(self, count: int) -> list[int]:
        """Save games 1..count and return their ids."""
        ids = list(range(1, count + 1))
        await self.application.graph.save_games([GameRow(id_, f"Game {id_}", None) for id_ in ids])
        await self.application.catalogue.refresh(self.application.graph)
        return ids

    async def befriend(self, user: int, friend: int) -> None:
        """Make two users friends."""
        await self._friendship("addFriendship", user, friend)

    async def part(self, user: int, friend: int) -> None:
        """Part two users."""
        await self._friendship("removeFriendship", user, friend)

    async def play(self, user: int, game: int) -> bool:
        """Record a play; whether it was the first."""
        query = "mutation($g: ID!) { recordPlay(gameId: $g) { recorded first game { id } } }"
        data = await self.ask(query, {"g": str(game)}, user=user)
        assert data["recordPlay"]["recorded"]
        assert data["recordPlay"]["game"]["id"] == str(game)
        first: bool = data["recordPlay"]["first"]
        return first

    async def friends_played(self, user: int, games: Sequence[int]) -> list[int | None]:
        """The friend counts of a page."""
        data = await self.ask(PAGE, {"ids": [str(game) for game in games]}, user=user)
        assert [game["id"] for game in data["games"]] == [str(game) for game in games]
        return [game["friendsPlayed"] for game in data["games"]]

    async def resident(self, *users: int) -> None:
        """Read a page of each user until each has a view; on a busy machine a read may go by without building."""

        async def read(user: int) -> bool:
            await self.friends_played(user, [1])
            return (await self.application.views.token(user) or "").startswith("R")

        for user in users:
            await until(partial(read, user))

    async def drained(self, *, seconds: float = 30.0) -> None:
        """Wait until everything that was written has been told to the views."""
        await until(self._nothing_left, seconds=seconds)

    async def _nothing_left(self) -> bool:
        # First the outbox, then the log behind it: what leaves the one is in the other by then.
        if await self.application.graph.outbox(1):
            return False
        return all(depth == (0, 0) for depth in await self.application.events.depths())

    async def _friendship(self, mutation: str, user: int, friend: int) -> None:
        query = f"mutation($u: ID!, $f: ID!) {{ {mutation}(userId: $u, friendId: $f) {{ friends }} }}"
        await self.ask(query, {"u": str(user), "f": str(friend)}, user=user, scopes=["friendships:write"])


def parametrize_truths(metafunc: pytest.Metafunc) -> None:
    """Try a module's tests on both truths: those that have `start`, and those that say so by `usefixtures`."""
    if "start" in metafunc.fixturenames:
        metafunc.parametrize(("truth_settings", "start"), STARTS, indirect=True)
    elif "truth_settings" in metafunc.fixturenames:
        named = metafunc.definition.get_closest_marker("usefixtures")
        truths = TRUTHS if named is not None and "truth_settings" in named.args else TRUTHS[:1]
        metafunc.parametrize("truth_settings", truths, indirect=True)


def settings_of_truth(truth: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings that choose one of TRUTHS, empty."""
    if truth == "sqlite":
        return {}
    access: Access = request.getfixturevalue("neo4j_access")
    wipe(access)
    chosen = {"uri": access.uri, "user": access.user, "password": access.password, "database": access.database}
    return {f"neo4j_{name}": value for name, value in chosen.items() if value is not None}


@asynccontextmanager
async def world(data_dir: Path, redis_url: str, *, workers: bool = True, **overrides: Any) -> AsyncIterator[World]:
    """The application, running, with recounts twenty times a second unless told otherwise."""
    settings = Settings(
        **{
            "_env_file": None,
            "data_dir": data_dir,
            "recount_interval_ms": 50,
            "signal_deadline_ms": 5_000,
            **overrides,
        }
    )
    tokens = Tokens(secret=SECRET)
    async with Application(settings, redis_url, Options(workers=workers), tokens) as application:
        transport = httpx.ASGITransport(application.asgi())
        async with httpx.AsyncClient(transport=transport, base_url="http://headcount.test") as http:
            yield World(application, http, tokens)
