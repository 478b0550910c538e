from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from server.graphiql import Assets, GraphiQL
from tests.server.conftest import MakeEdge

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PAGE = """<!doctype html><title>x</title>
<script id="headcount-config" type="application/json">{}</script>
<script type="module" src="./assets/graphiql-AbCd1234.js"></script>"""


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "graphiql.html").write_text(PAGE)
    (folder / "assets" / "graphiql-AbCd1234.js").write_text("export {}")
    (folder / "assets" / "plain.css").write_text("a{}")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


async def test_a_browser_gets_the_page_with_what_the_server_can_do_written_in(make_edge: MakeEdge, dist: Path) -> None:
    edge = make_edge(page=GraphiQL(dist, dev=True, introspection=True))
    response = await edge.client.get("/graphql", headers=BROWSER)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert (
        '<script id="headcount-config" type="application/json">{"dev":true,"introspection":true}</script>'
        in response.text
    )
    assert '<script type="module" src="./assets/graphiql-AbCd1234.js"></script>' in response.text
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy, "the page must work offline"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["vary"] == "Accept"
    again = await edge.client.get("/graphql", headers={**BROWSER, "If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    head = await edge.client.head("/graphql", headers=BROWSER)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(response.content))


async def test_programs_and_servers_without_a_page_get_405(make_edge: MakeEdge, dist: Path) -> None:
    page: Any = GraphiQL(dist, dev=False, introspection=False)
    assert (await make_edge(page=page).client.get("/graphql")).status_code == 405
    assert (await make_edge(page=page).client.get("/graphql", headers={"Accept": "*/*"})).status_code == 405
    assert (await make_edge().client.get("/graphql", headers=BROWSER)).status_code == 405


async def test_without_a_bundle_the_page_says_how_to_build_it(make_edge: MakeEdge, tmp_path: Path) -> None:
    page = GraphiQL(tmp_path, dev=True, introspection=True)
    assert not page.built
    response = await make_edge(page=page).client.get("/graphql", headers=BROWSER)
    assert response.status_code == 503
    assert "make setup" in response.text


async def test_the_bundle_s_files_are_kept_by_browsers_and_nothing_else_is_served(dist: Path, tmp_path: Path) -> None:
    app = Starlette(routes=[Mount("/assets", Assets(dist)), Mount("/none", Assets(tmp_path / "nowhere"))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        script = await client.get("/assets/graphiql-AbCd1234.js")
        assert script.status_code == 200
        assert "javascript" in script.headers["content-type"]
        assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert script.headers["x-content-type-options"] == "nosniff"
        assert "immutable" not in (await client.get("/assets/plain.css")).headers.get("cache-control", "")
        for path in (
            "/assets/",
            "/assets/nothing.js",
            "/none/x.js",
            "/assets/..%2f..%2fsecret.txt",
            "/assets/%2e%2e/graphiql.html",
            "/assets/a%00b",
        ):
            assert (await client.get(path)).status_code == 404
        assert (await client.post("/assets/plain.css")).status_code in {404, 405}
