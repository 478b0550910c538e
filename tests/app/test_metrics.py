"""`/metrics` of the whole application: its figures after known traffic, and what is left out when a store is away."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx
import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from events.redis_streams import EventLog, stream_key
from server.process import metrics_port
from server.site import metrics_site
from signals import view_keys
from tests.app.world import World, world
from tests.waiting import until

VIEWER, FRIEND = 21, 22


async def figures(world: World) -> dict[tuple[str, ...], float]:
    """All samples: name and label values to number."""
    response = await world.http.get("/metrics")
    assert response.status_code == 200
    return parsed(response.text)


def parsed(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_figures_after_known_traffic(headcount: World) -> None:
    await headcount.games(3)
    await headcount.befriend(VIEWER, FRIEND)
    await headcount.play(FRIEND, 1)
    await headcount.resident(VIEWER)
    await headcount.drained()
    before = await figures(headcount)
    for _ in range(3):
        assert await headcount.friends_played(VIEWER, [1, 2]) == [1, 0]
    refused = await headcount.http.post("/graphql", json={"query": "{ nothing }"})
    assert refused.status_code == 200
    await headcount.post("mutation { recordPlay(gameId: 99) { first } }", user=VIEWER)
    after = await figures(headcount)

    def rose(*key: str) -> float:
        return after.get(key, 0) - before.get(key, 0)

    assert rose("headcount_requests_total", "query games", "200") == 3
    assert rose("headcount_requests_total", "none", "200") == 1
    assert rose("headcount_requests_total", "mutation recordPlay", "200") == 1
    assert rose("headcount_request_seconds_count", "query games") == 3
    assert rose("headcount_request_redis_round_trips_sum", "query games") == 3
    assert rose("headcount_request_graph_queries_sum", "query games") == 0
    assert rose("headcount_errors_total", "GRAPHQL_VALIDATION_FAILED") == 1
    assert rose("headcount_errors_total", "NOT_FOUND") == 1
    assert after["headcount_cold_pages_total", "logs"] >= 1
    assert after["headcount_view_builds_total", "built"] == 1
    assert after["headcount_resident_views",] == 1
    assert after["headcount_outbox_rows",] == 0
    assert (after["headcount_fan_out_events", "undelivered"], after["headcount_fan_out_events", "pending"]) == (0, 0)
    assert after["headcount_fan_out_lag_seconds",] == 0
    assert after["headcount_dead_letters",] == 0
    assert after["headcount_recount_age_seconds",] < 60
    assert after["headcount_job_running", "view-audit"] == 1
    assert after["process_resident_memory_bytes",] > 1e6
    assert "headcount_drift_pairs_total" in {key[0] for key in after}


async def test_the_audit_counts_drift_and_mends_it(headcount: World) -> None:
    await headcount.games(2)
    await headcount.befriend(VIEWER, FRIEND)
    await headcount.play(FRIEND, 1)
    await headcount.resident(VIEWER)
    await headcount.drained()
    number = headcount.application.catalogue.game(1)
    assert number is not None
    bucket = f"fp:{view_keys.tag(VIEWER)}:{number.number % 64}"
    await headcount.application.redis.call("HINCRBY", bucket, number.number // 64, 5)

    async def found() -> bool:
        return (await figures(headcount))["headcount_drift_pairs_total",] == 1

    await until(found, seconds=60)
    assert (await figures(headcount))["headcount_views_audited_total",] >= 1
    assert await headcount.friends_played(VIEWER, [1]) == [1]


async def test_lag_is_told_in_seconds(tmp_path: Path, redis_url: str) -> None:
    async with world(tmp_path, redis_url, workers=False) as running:
        await running.application.events._client.xadd(stream_key(3), {"e": b"[]"}, id="1000-1")
        await running.games(1)
        await running.play(VIEWER, 1)
        seen = await figures(running)
        assert seen["headcount_fan_out_lag_seconds",] > 1e9
        assert seen["headcount_fan_out_events", "undelivered"] == 1
        assert seen["headcount_outbox_rows",] == 1
        assert "headcount_views_audited_total" not in {key[0] for key in seen}  # no worker, no audit
        assert [
            job for name, job in (key for key in seen if key[0] == "headcount_job_running") if "fan-out" in job
        ] == []


async def test_a_store_that_is_away_is_left_out(headcount: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: object) -> None:
        raise ConnectionError("away")

    monkeypatch.setattr(EventLog, "depths", fails)
    seen = await figures(headcount)
    assert not any(key[0] == "headcount_fan_out_events" for key in seen)
    assert seen["headcount_outbox_rows",] == 0


async def test_scrapes_at_once_and_other_methods(headcount: World) -> None:
    replies = await asyncio.gather(*(headcount.http.get("/metrics") for _ in range(5)))
    assert {reply.status_code for reply in replies} == {200}
    assert (await headcount.http.head("/metrics")).text == ""
    assert (await headcount.http.post("/metrics")).status_code == 405
    openmetrics = await headcount.http.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert openmetrics.text.endswith("# EOF\n")


async def test_nothing_is_kept_in_the_libraries_own_registry(headcount: World) -> None:
    await figures(headcount)
    assert not any(family.name.startswith("headcount") for family in REGISTRY.collect())


async def test_a_port_of_their_own(tmp_path: Path, redis_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    async with world(tmp_path, redis_url, metrics_port=port) as running:
        assert (await running.http.get("/metrics")).status_code == 404
        site = metrics_site(running.application.metrics)
        async with metrics_port(site, running.application.settings), httpx.AsyncClient() as http:
            reply = await http.get(f"http://127.0.0.1:{port}/metrics")
            assert parsed(reply.text)["headcount_outbox_rows",] == 0
            assert (await http.get(f"http://127.0.0.1:{port}/graphql")).status_code == 404
        with socket.create_server(("127.0.0.1", port), reuse_port=False):
            pass  # free again


async def test_a_port_that_several_processes_share_has_none(headcount: World) -> None:
    transport = httpx.ASGITransport(headcount.application.asgi(shared_port=True))
    async with httpx.AsyncClient(transport=transport, base_url="http://headcount.test") as http:
        reply = await http.get("/metrics")
    assert reply.status_code == 404
    assert "HEADCOUNT_METRICS_PORT" in reply.text
