"""`headcount reconcile`: the stores that it needs, and how it shows how far it is."""

from __future__ import annotations

import sys

from rich.console import Console

from events.event_progress import EventProgress
from graph.data_folder import DataFolder
from settings import Settings
from signals.redis import SharedRedis
from signals.views import FriendViews
from workers.command_stores import command_graph, command_redis
from workers.in_flight import PATIENCE_SECONDS, InFlight
from workers.reconcile import Reconcile, Report
from workers.reconcile_report import Bar, Lines


async def reconcile_views(settings: Settings, user_id: int | None, *, repair: bool) -> tuple[Report, dict[int, int]]:
    """Compare views with the truth.

    Args:
        settings: of the command.
        user_id: whose view; None for all.
        repair: evict the views that drifted.

    Returns:
        What was found, and the ids of games by their numbers.

    Raises:
        TruthUnavailableError, DataFolderError, RedisUnreachableError, EmbeddedRedisError, RedisError: a store cannot be
            used; one line.
    """
    folder = DataFolder(settings.data_dir)
    # Where this command runs Redis by itself, no worker handles anything, and there is nothing to wait for.
    alone = settings.redis_url is None and folder.holder() is None
    async with (
        command_graph(settings, folder, create=False) as graph,
        command_redis(settings, folder, "reconcile") as client,
    ):
        views = FriendViews(SharedRedis(client))
        in_flight = InFlight(graph, EventProgress(client), patience_seconds=0 if alone else PATIENCE_SECONDS)
        reconciling = Reconcile(graph, views, in_flight, repair=repair)
        if user_id is not None:
            report = await reconciling.views([user_id])
        else:
            count = await views.resident_count()
            console = Console(stderr=True)
            with Bar(console, count) if console.is_terminal else Lines(sys.stderr, count) as advance:
                report = await reconciling.all(advance)
        return report, {game.number: game.id for game in (await graph.catalogue()).changed}
