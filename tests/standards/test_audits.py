"""GraphQL over HTTP, as npm's graphql-http audits it."""

from __future__ import annotations

from pathlib import Path

from tests.app.world import world
from tests.served import Serve
from tests.standards.node import script


async def test_every_audit_that_says_must_or_should_passes(tmp_path: Path, redis_url: str, serve: Serve) -> None:
    async with world(tmp_path, redis_url, workers=False, introspection=True) as headcount:
        served = await serve(headcount.application.asgi())
        async with script("audit.mjs", served.url("http")) as audit:
            results = await audit.rest()
    required = [result for result in results if result["name"].startswith(("MUST", "SHOULD"))]
    assert [result for result in required if result["status"] != "ok"] == []
    assert len(required) >= 36
