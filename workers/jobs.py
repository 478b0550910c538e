"""The jobs of a process with workers: what follows from writes, counts what lives, and looks after what is derived."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import redis.asyncio

from events.dead_letters import DeadLetters
from events.event_progress import EventProgress
from events.redis_streams import EventLog
from graph.social_graph import SocialGraph
from settings import Settings
from signals.fence import Fence, Witness
from signals.hidden_users import HiddenUsers
from signals.live_sessions import LiveSessions
from signals.markers import ShardMarkers
from signals.redis import SharedRedis
from signals.views import FriendViews
from workers.acknowledgements import Acknowledgements
from workers.beginning import Beginning
from workers.demo_players import DemoPlayers
from workers.fan_out import FanOut
from workers.fan_out_consumer import fan_out_jobs
from workers.in_flight import InFlight
from workers.lease import Lease
from workers.live_audit import LiveCountsAudit
from workers.live_visibility import LiveVisibility
from workers.markers import Markers
from workers.outbox_relay import OutboxRelay
from workers.pulled_logs import LEASE_NAME as PULLED_LOGS_LEASE_NAME
from workers.pulled_logs import PulledLogsPublisher, lease_seconds
from workers.reconcile import Reconcile
from workers.recount import LEASE_NAME, LEASE_SECONDS, Recount
from workers.view_audit import ViewAudit
from workers.view_janitor import ViewJanitor

RELAY_LEASE_SECONDS = 2.5
#: The audit's lease outlasts the longest that one of its batches waits for events in flight.
AUDIT_LEASE_SECONDS = 60.0
AUDIT_WAIT_SECONDS = 40.0


class Workers:
    """What a process with workers holds beside its stores.

    Args:
        settings: of the process.
        graph: the truth.
        redis: what is derived.
        views: of the process; what follows from events is written behind a fence of its own.
        events: the log.
        events_client: a patient connection for consumers, who wait up to a second for an event.
        markers: of the shards, by the truth.
        shard_markers: of the shards, by Redis.
        beginning: jobs that act on the truth wait for it.
    """

    def __init__(
        self,
        settings: Settings,
        graph: SocialGraph,
        redis: SharedRedis,
        views: FriendViews,
        events: EventLog,
        events_client: redis.asyncio.Redis,
        *,
        markers: Markers,
        shard_markers: ShardMarkers,
        beginning: Beginning,
    ) -> None:
        witness = Witness()
        fence = Fence(lambda: graph.truth_id, witness)
        live_visibility = LiveVisibility(graph, HiddenUsers(redis, fence))
        interval_ms = settings.recount_interval_ms
        self.acknowledgements = Acknowledgements(graph, shard_markers, witness)
        in_flight = InFlight(graph, EventProgress(events_client), longest_seconds=AUDIT_WAIT_SECONDS)
        reconcile = Reconcile(graph, views, in_flight, repair=True)
        self.view_audit = ViewAudit(views, reconcile, Lease(redis, "view-audit", AUDIT_LEASE_SECONDS))
        recount_lease = Lease(redis, LEASE_NAME, LEASE_SECONDS)
        recount = Recount(redis, settings.session_ttl_seconds, interval_ms, recount_lease, live_visibility)
        self.live_audit = LiveCountsAudit(redis, recount_lease)
        pulled_lease = Lease(redis, PULLED_LOGS_LEASE_NAME, lease_seconds(interval_ms))
        relay = OutboxRelay(graph, events, Lease(redis, "outbox-relay", RELAY_LEASE_SECONDS), markers=markers)
        consumers = fan_out_jobs(
            events,
            FanOut(graph, FriendViews(redis, fence=fence), live_visibility),
            DeadLetters(events_client),
            acknowledgements=self.acknowledgements,
        )
        after_beginning = {
            "outbox-relay": relay.run,
            "view-janitor": ViewJanitor(views, settings.view_idle_seconds).run,
            **consumers,
            "view-audit": self.view_audit.run,
        }
        self.jobs: dict[str, Callable[[], Awaitable[None]]] = {
            "recount": recount.run,
            "live-audit": self.live_audit.run,
            "pulled-logs-publisher": PulledLogsPublisher(graph, redis, interval_ms, pulled_lease).run,
            **{name: beginning.before(job) for name, job in after_beginning.items()},
        }


def demo_jobs(
    settings: Settings, graph: SocialGraph, live_sessions: LiveSessions, beginning: Beginning
) -> dict[str, Callable[[], Awaitable[None]]]:
    """The players of the invented world."""
    players = DemoPlayers(live_sessions, graph, ttl_seconds=settings.session_ttl_seconds)
    return {"demo-players": beginning.before(players.run)}
