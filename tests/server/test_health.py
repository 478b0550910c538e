from __future__ import annotations

from collections.abc import Sequence

import httpx
from starlette.applications import Starlette
from starlette.routing import Route

from server.health import Alive, Ready


async def test_alive_always_and_ready_by_what_the_program_says() -> None:
    state: list[tuple[bool, Sequence[str]]] = [(True, [])]
    app = Starlette(routes=[Route("/healthz", Alive()), Route("/readyz", Ready(lambda: state[0]))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        assert (await client.get("/readyz")).json() == {"status": "ready", "degraded": []}
        state[0] = (True, ["redis"])
        response = await client.get("/readyz")
        assert (response.status_code, response.json()["degraded"]) == (200, ["redis"])
        state[0] = (False, ["catalogue"])
        response = await client.get("/readyz")
        assert (response.status_code, response.json()) == (503, {"status": "not ready", "degraded": ["catalogue"]})
        assert response.headers["retry-after"] == "1"
        response = await client.get("/healthz")
        assert (response.status_code, response.json()) == (200, {"status": "alive"})
        assert (await client.head("/readyz")).status_code == 503
        response = await client.post("/healthz")
        assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")
