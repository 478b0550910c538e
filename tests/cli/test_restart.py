"""A deploy: the server is told to stop with pages open, and started again."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from server.tokens import Tokens, kept_secret
from tests.cli.commands import Headcount, Server, served
from tests.waiting import until

USERS = 8
SOCKETS_A_USER = 5
SUBSCRIBE = {"query": 'subscription { gameSignals(ids: ["1"]) { livePlayers friendsPlayed } }'}
BEAT = 'mutation { heartbeat(sessionId: "s", gameId: "1") { live nextHeartbeatInSeconds } }'
BACK_SECONDS = 10.0


class Page:
    """An open page: a socket with a subscription, which comes back when it is told to."""

    def __init__(self, address: str, token: str) -> None:
        self.url = address.replace("http", "ws") + "/graphql"
        self.token = token
        self.numbers: list[tuple[int | None, int | None]] = []
        self.closed_at = self.back_at = 0.0
        self.code: int | None = None

    async def live(self, seen: asyncio.Event) -> None:
        """Follow until the server goes, and again once it is back."""
        await self._follow(seen, ends=True)
        while True:
            try:
                await self._follow(asyncio.Event(), ends=False)
            except (OSError, ConnectionClosed):
                await asyncio.sleep(0.1)
            else:
                return

    async def _follow(self, seen: asyncio.Event, *, ends: bool) -> None:
        async with connect(self.url, subprotocols=[Subprotocol("graphql-transport-ws")]) as socket:
            await socket.send(
                json.dumps({"type": "connection_init", "payload": {"Authorization": f"Bearer {self.token}"}})
            )
            await socket.recv()
            await socket.send(json.dumps({"type": "subscribe", "id": "1", "payload": SUBSCRIBE}))
            try:
                while True:
                    (game,) = json.loads(await socket.recv())["payload"]["data"]["gameSignals"]
                    self.numbers.append((game["livePlayers"], game["friendsPlayed"]))
                    seen.set()
                    if not ends and self.numbers[-1] == (1, 1):
                        self.back_at = time.monotonic()
                        return
            except ConnectionClosed as closed:
                if not ends:
                    raise
                self.closed_at = time.monotonic()
                self.code = closed.rcvd.code if closed.rcvd is not None else None


async def stream(address: str) -> str:
    """The events of an anonymous stream, until it ends."""
    async with (
        httpx.AsyncClient(timeout=60) as client,
        client.stream(
            "POST", f"{address}/graphql", json=SUBSCRIBE, headers={"Accept": "text/event-stream"}
        ) as response,
    ):
        return (await response.aread()).decode()


async def test_open_pages_are_told_to_come_back_and_see_no_wrong_number(headcount: Headcount) -> None:
    headcount.environment["HEADCOUNT_LOG_LEVEL"] = "error"  # nobody reads the pipe that lines would fill
    for name, text in (
        ("games.tsv", "game_id\tname\n1\tOne\n"),
        ("friends.tsv", "user_id\tfriend_id\n" + "".join(f"{user}\t1000\n" for user in range(1, USERS + 1))),
        ("plays.tsv", "user_id\tgame_id\n1000\t1\n"),
    ):
        (headcount.folder / name).write_text(text)
    headcount.run("import", "--games", "games.tsv", "--friends", "friends.tsv", "--plays", "plays.tsv")
    with served(headcount) as first:
        tokens = Tokens(secret=kept_secret(headcount.data_dir))
        port = httpx.URL(first.address).port or 0
        assert await beat(first, tokens.sign(USERS + 1, (), 600)) == {"live": True}
        await until(lambda: is_counted(first))
        pages = [
            Page(first.address, tokens.sign(user, (), 600))
            for user in range(1, USERS + 1)
            for _ in range(SOCKETS_A_USER)
        ]
        seen = [asyncio.Event() for _ in pages]
        async with asyncio.TaskGroup() as group:
            streams = [group.create_task(stream(first.address)) for _ in range(5)]
            for page, event in zip(pages, seen, strict=True):
                group.create_task(page.live(event))
            for event in seen:
                await event.wait()
            first.process.terminate()
            assert await asyncio.to_thread(first.process.wait) == 0
            with served(headcount, port=port):
                up = time.monotonic()
                await until(lambda: all(page.back_at for page in pages))
    assert {page.code for page in pages} == {1012}
    closed = sorted(page.closed_at for page in pages)
    assert closed[-1] - closed[0] > 0.5  # of the two seconds that they are spread over
    assert max(page.back_at for page in pages) - up < BACK_SECONDS
    for page in pages:
        assert {live for live, _ in page.numbers} <= {1, None}
        assert {friends for _, friends in page.numbers} <= {1, None}
    for task in streams:
        assert "event: next" in task.result()
        assert "event: complete" not in task.result()


async def ask(server: Server, query: str, token: str | None = None) -> dict[str, Any]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(timeout=20) as client:
        response = await client.post(f"{server.address}/graphql", json={"query": query}, headers=headers)
    data: dict[str, Any] = response.json()["data"]
    return data


async def beat(server: Server, token: str) -> dict[str, Any]:
    answer: dict[str, Any] = (await ask(server, BEAT, token))["heartbeat"]
    assert 18 <= answer.pop("nextHeartbeatInSeconds") <= 22
    return answer


async def is_counted(server: Server) -> bool:
    shown: int | None = (await ask(server, '{ game(id: "1") { livePlayers } }'))["game"]["livePlayers"]
    return shown == 1
