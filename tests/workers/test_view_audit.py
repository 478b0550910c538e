"""The audit: goes round the resident views by lease, counts them, and evicts and names what drifted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis.asyncio
from structlog.testing import capture_logs

from events.event_progress import EventProgress
from graph.social_graph import SocialGraph
from signals import view_keys
from signals.redis import SharedRedis
from signals.views import FriendViews
from tests.waiting import until
from tests.workers.views_of_truth import build_view
from workers.grace import finish
from workers.in_flight import InFlight
from workers.lease import Lease
from workers.reconcile import Reconcile
from workers.view_audit import LEASE_NAME, ViewAudit

VIEWERS = range(201, 221)
FRIEND = 300


@pytest.fixture
def audit(
    graph: SocialGraph, views: FriendViews, shared_redis: SharedRedis, events_client: redis.asyncio.Redis
) -> ViewAudit:
    in_flight = InFlight(graph, EventProgress(events_client), patience_seconds=0)
    reconcile = Reconcile(graph, views, in_flight, repair=True)
    return ViewAudit(views, reconcile, Lease(shared_redis, LEASE_NAME, 60.0), views_a_second=10_000)


@pytest.fixture
async def _views(graph: SocialGraph, views: FriendViews) -> None:
    for viewer in VIEWERS:
        await graph.set_friendship(viewer, FRIEND, True)
    for game in (1, 2, 3):
        await graph.record_play(FRIEND, game)
    for viewer in VIEWERS:
        await build_view(graph, views, viewer)


@asynccontextmanager
async def running(audit: ViewAudit) -> AsyncIterator[None]:
    task = asyncio.create_task(audit.run())
    try:
        yield
    finally:
        await finish(task, 0)


@pytest.mark.usefixtures("_views")
async def test_it_goes_round_and_evicts_what_drifted(
    audit: ViewAudit, views: FriendViews, shared_redis: SharedRedis
) -> None:
    with capture_logs() as logs:
        async with running(audit):
            await until(lambda: audit.views_audited >= 2 * len(VIEWERS))
            assert (audit.drift_pairs, logs) == (0, [])
            await shared_redis.call("HINCRBY", f"fp:{view_keys.tag(VIEWERS[3])}:1", 0, 2)
            await shared_redis.call("HDEL", f"fp:{view_keys.tag(VIEWERS[7])}:2", 0)
            await shared_redis.call("HDEL", f"fp:{view_keys.tag(VIEWERS[7])}:3", 0)
            await until(lambda: audit.drift_pairs >= 3)
            seen = audit.views_audited
            await until(lambda: audit.views_audited >= seen + 2 * len(VIEWERS))
    assert audit.drift_pairs == 3
    assert [await views.token(viewer) for viewer in (VIEWERS[3], VIEWERS[7])] == [None, None]
    assert await views.resident_count() == len(VIEWERS) - 2
    told = {entry["viewer_id"]: entry for entry in logs if entry["event"] == "view_drifted"}
    assert {viewer: entry["pairs"] for viewer, entry in told.items()} == {VIEWERS[3]: 1, VIEWERS[7]: 2}
    assert told[VIEWERS[3]]["first"] == [{"kind": "count", "owner_id": 0, "number": 1, "found": 3, "expected": 1}]


@pytest.mark.usefixtures("_views")
async def test_one_process_audits_at_a_time(audit: ViewAudit, shared_redis: SharedRedis) -> None:
    other = Lease(shared_redis, LEASE_NAME, 60.0)
    assert await other.acquire() is not None
    await audit.round()
    assert audit.views_audited == 0
    async with running(audit):
        await other.release()
        await until(lambda: audit.views_audited > 0)
    assert await other.acquire() is not None
