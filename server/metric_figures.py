"""Which figures `/metrics` has beside requests, and where each comes from."""

from __future__ import annotations

import time
from collections.abc import Callable

import redis.asyncio

from events.dead_letters import DeadLetters
from events.event_progress import EventProgress
from events.redis_streams import EventLog
from graph.player_bitmaps import PlayerBitmaps
from graph.social_graph import SocialGraph
from loaders.cold_pages import ColdPages
from loaders.watched_pages import WatchedPages
from server.graphql_http import GraphQLApp
from server.metrics import Figure, StoreFigure, Value
from signals.live_totals import LiveTotals
from signals.views import FriendViews
from workers.live_audit import LiveCountsAudit
from workers.supervisor import Supervisor
from workers.view_audit import ViewAudit

#: Rows of the outbox are counted up to here: a longer one is told as this many.
OUTBOX_COUNTED = 10_000


def page_figures(
    cold_pages: ColdPages,
    bitmaps: PlayerBitmaps,
    live_totals: LiveTotals,
    watched_pages: WatchedPages,
    clock: Callable[[], float] = time.time,
) -> list[Figure]:
    """Of a process that answers pages."""

    def recount_age() -> Value:
        return None if (as_of := live_totals.as_of) is None else max(0.0, clock() - as_of)

    return [
        Figure(
            "counter",
            "cold_pages",
            "Pages of viewers without a view, by what they were counted from.",
            lambda: cold_pages.answered,
            "source",
        ),
        Figure("counter", "view_builds", "Builds of views, by what came of them.", lambda: cold_pages.built, "outcome"),
        Figure("gauge", "view_builds_running", "Builds of views under way.", lambda: cold_pages.builds_running),
        Figure("gauge", "player_bitmaps", "Games with a player bitmap.", lambda: bitmaps.games),
        Figure("gauge", "player_bitmap_users", "Users whose plays are in the bitmaps.", lambda: bitmaps.users),
        Figure("gauge", "player_bitmap_bytes", "Memory that player bitmaps take, about.", lambda: bitmaps.size_bytes),
        Figure("gauge", "recount_age_seconds", "Age of the live totals that pages show.", recount_age),
        Figure("gauge", "live_count_subscribers", "Subscribers to live counts.", lambda: live_totals.subscribers),
        Figure(
            "gauge",
            "friend_count_subscribers",
            "Subscribers among those with a viewer of their own.",
            lambda: watched_pages.subscribers,
        ),
    ]


def connection_figures(graphql: GraphQLApp) -> list[Figure]:
    """Of WebSockets and event streams."""
    sockets, streams = graphql.sockets, graphql.streams
    return [
        Figure("gauge", "websockets", "Open WebSockets.", lambda: len(sockets.open)),
        Figure("gauge", "websocket_operations", "Operations that run on WebSockets.", lambda: sockets.running),
        Figure("gauge", "event_streams", "Open event streams, each with one operation.", lambda: len(streams.open)),
        Figure(
            "gauge",
            "connected_users",
            "Users with a WebSocket or an event stream open.",
            lambda: graphql.connections.users,
        ),
    ]


def worker_figures(audit: ViewAudit, live_audit: LiveCountsAudit) -> list[Figure]:
    """Of a process with workers."""
    return [
        Figure(
            "counter",
            "drift_pairs",
            "Counts and cursors of views that the audit found wrong. Expected: none, ever.",
            lambda: audit.drift_pairs,
        ),
        Figure("counter", "views_audited", "Views compared with the truth by the audit.", lambda: audit.views_audited),
        Figure(
            "counter",
            "live_drift_games",
            "Games whose live counts the audit found to be other than their sessions. Expected: none, ever.",
            lambda: live_audit.drift_games,
        ),
        Figure(
            "counter",
            "live_shards_audited",
            "Shards of live sessions that the audit counted from their sets.",
            lambda: live_audit.shards_audited,
        ),
    ]


def job_figures(supervisor: Supervisor) -> list[Figure]:
    """Of the jobs of a process."""
    return [
        Figure(
            "gauge",
            "job_running",
            "Whether a job runs.",
            lambda: {name: float(job.running) for name, job in supervisor.status().items()},
            "job",
        ),
        Figure(
            "counter",
            "job_restarts",
            "How often a job failed and was started again.",
            lambda: {name: float(job.restarts) for name, job in supervisor.status().items()},
            "job",
        ),
    ]


def store_figures(graph: SocialGraph, views: FriendViews, events_client: redis.asyncio.Redis) -> list[StoreFigure]:
    """Of the stores, the same whichever process is asked."""
    events, progress, letters = EventLog(events_client), EventProgress(events_client), DeadLetters(events_client)

    async def waiting() -> Value:
        depths = await events.depths()
        return {"undelivered": sum(depth.undelivered for depth in depths), "pending": sum(d.pending for d in depths)}

    async def outbox() -> Value:
        return len(await graph.outbox(OUTBOX_COUNTED))

    return [
        StoreFigure("outbox_rows", f"Changes not published yet, up to {OUTBOX_COUNTED:,}.", outbox),
        StoreFigure("fan_out_events", "Events not handled yet, by state.", waiting, "state"),
        StoreFigure("fan_out_lag_seconds", "Age of the oldest event that is not handled.", progress.oldest_seconds),
        StoreFigure("dead_letters", "Events set aside.", letters.count),
        StoreFigure("resident_views", "Views in Redis, those being built included.", views.resident_count),
    ]
