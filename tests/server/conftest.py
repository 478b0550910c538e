from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from server.graphql_http import GraphQLApp
from server.limits import Limits
from server.tokens import Tokens
from tests.served import Serve, Served, serve  # noqa: F401  # a fixture is found by its name here
from tests.server.small_schema import Context, Store, small_schema

SECRET = b"an invented secret, long enough for any algorithm that a test forges a token with"
NOW = 1_764_547_200.0


@dataclass
class Clock:
    now: float = NOW

    def __call__(self) -> float:
        return self.now


@dataclass
class Edge:
    """The endpoint over the small schema, with all that a test looks at."""

    app: GraphQLApp
    client: httpx.AsyncClient
    store: Store
    tokens: Tokens
    clock: Clock

    async def post(self, query: Any, *, headers: dict[str, str] | None = None, **rest: Any) -> httpx.Response:
        return await self.client.post("/graphql", json={"query": query, **rest}, headers=headers)

    def bearer(self, user_id: int = 42, seconds: float = 3600) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens.sign(user_id, [], seconds)}"}


MakeEdge = Callable[..., Edge]


@pytest.fixture
async def make_edge() -> AsyncIterator[MakeEdge]:
    clients: list[httpx.AsyncClient] = []

    def make(limits: Limits | None = None, **options: Any) -> Edge:
        store, clock = Store(), Clock()
        tokens = options.pop("tokens", None) or Tokens(secret=SECRET, clock=clock)
        app = GraphQLApp(
            small_schema(),
            make_context=lambda principal, request_id: Context(store, principal, request_id),
            tokens=tokens,
            limits=limits,
            **options,
        )
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
        clients.append(client)
        return Edge(app, client, store, tokens, clock)

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
def edge(make_edge: MakeEdge) -> Edge:
    return make_edge()


@pytest.fixture
def lines() -> Any:
    """What is logged meanwhile."""
    with capture_logs() as captured:
        yield captured


def only_error(response: httpx.Response) -> dict[str, Any]:
    """The one error of a reply."""
    body = response.json()
    assert len(body["errors"]) == 1, body
    error: dict[str, Any] = body["errors"][0]
    return error
