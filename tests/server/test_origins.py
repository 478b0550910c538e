from __future__ import annotations

import pytest

from server.origins import Origins
from settings import SettingsError
from tests.server.conftest import MakeEdge

PAGE = "https://play.example"


async def test_a_listed_page_may_call_and_read_cost_and_request_id(make_edge: MakeEdge) -> None:
    edge = make_edge(allowed_origins=[PAGE, "http://localhost:5173"])
    preflight = await edge.client.options(
        "/graphql",
        headers={
            "Origin": PAGE,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type,x-headcount-cost",
        },
    )
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == PAGE
    assert preflight.headers["access-control-allow-methods"] == "POST"
    for needed in ("authorization", "content-type", "x-headcount-cost", "x-request-id"):
        assert needed in preflight.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in preflight.headers
    response = await edge.post("{ first }", headers={"Origin": PAGE})
    assert response.headers["access-control-allow-origin"] == PAGE
    assert response.headers["vary"] == "Origin"
    assert "Server-Timing" in response.headers["access-control-expose-headers"]
    assert response.headers["timing-allow-origin"] == PAGE
    refused = await edge.post("{ first", headers={"Origin": PAGE, "Authorization": "Bearer x"})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://play.example",
        "https://play.example:8443",
        "null",
        "https://play.example.evil.example",
        "x",
    ],
)
async def test_other_pages_get_no_word_of_permission(make_edge: MakeEdge, origin: str) -> None:
    edge = make_edge(allowed_origins=[PAGE])
    for response in (
        await edge.client.options("/graphql", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}),
        await edge.post("{ first }", headers={"Origin": origin}),
    ):
        assert not [name for name in response.headers if name.startswith("access-control")]
        assert response.headers["vary"] == "Origin"


async def test_without_a_list_no_page_of_another_host_may_call(make_edge: MakeEdge) -> None:
    response = await make_edge().post("{ first }", headers={"Origin": PAGE})
    assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", ["play.example", "https://play.example/path", "https://[", ""])
def test_what_is_no_origin_stops_the_start_with_one_line(origin: str) -> None:
    with pytest.raises(SettingsError, match="HEADCOUNT_ALLOWED_ORIGINS: ") as refused:
        Origins([origin])
    assert "\n" not in str(refused.value)
