"""The composition root: settings and stores in, a served application out."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass

import structlog
import uvloop
from starlette.types import ASGIApp

from events.publisher import Publisher
from events.redis_streams import EventLog
from graph.catalogue import CatalogueMemory
from graph.data_folder import DataFolder, DataFolderError
from graph.deleted_users import DeletedUsers
from graph.player_bitmaps import PlayerBitmaps
from graph.social_graph import GraphError, TruthReplacedError
from loaders.bitmap_pages import BitmapPages
from loaders.cold_pages import ColdPages
from loaders.friend_counts import FriendCounts
from loaders.pulled_friends import PulledFriends
from loaders.view_reads import ViewReads
from loaders.watched_pages import WatchedPages
from resolvers.catalog_orders import CatalogOrders
from resolvers.services import Services
from server.dev_tokens import is_loopback
from server.graphql_http import GraphQLApp
from server.logs import configure_logging
from server.metric_figures import connection_figures, job_figures, page_figures, store_figures, worker_figures
from server.metrics import Metrics, NoMetrics
from server.origins import Origins
from server.process import StartError, freeze_garbage, greet, leaving_when_replaced, metrics_port, run
from server.request_tally import RequestTally
from server.serving import (
    PortTakenError,
    WebProcesses,
    leave_with_parent,
    listen,
    serve_app,
    until_stopped,
)
from server.signing_keys import check_file
from server.site import graphql_app, metrics_site, site
from server.tokens import Tokens, make_tokens
from settings import Settings, SettingsError, load_settings, unknown_settings
from signals.catalogue_copy import CatalogueCopy
from signals.embedded_redis import EmbeddedRedis, EmbeddedRedisError, socket_url
from signals.fence import Fence
from signals.live_sessions import LiveSessions
from signals.live_totals import LiveTotals
from signals.markers import ShardMarkers
from signals.pulled_logs import PulledLogs
from signals.redis import SharedRedis, connect
from signals.views import FriendViews
from workers.beginning import Beginning
from workers.chosen_truth import choose_truth
from workers.demo_world import fill_demo_world
from workers.jobs import Workers, demo_jobs
from workers.markers import Markers
from workers.supervisor import Supervisor

log = structlog.get_logger(__name__)

CATALOGUE_REFRESH_SECONDS = 2.0
#: How long a truth that does not answer is waited for before pages are served without it.
TRUTH_START_SECONDS = 1.0
#: How long a start waits for the first live totals before it serves without them.
FIRST_TOTALS_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Options:
    """What one process does."""

    web: bool = True
    workers: bool = True
    dev: bool = False
    demo: bool = False


class Application:
    """Everything that one process holds: stores, tables, jobs, routes. An async context manager: open, use, close."""

    def __init__(self, settings: Settings, redis_url: str, options: Options, tokens: Tokens | None = None) -> None:
        self.settings = settings
        self.options = options
        self.tokens = tokens
        self.graph = choose_truth(settings, start_seconds=TRUTH_START_SECONDS)
        self.redis = SharedRedis(connect(redis_url, client_name="headcount"))
        # Consumers wait up to a second for an event, so their connections are patient.
        self._events_client = connect(redis_url, client_name="headcount-events", timeout_seconds=5.0)
        self.views = FriendViews(self.redis, fence=Fence(lambda: self.graph.truth_id))
        self.player_bitmaps = PlayerBitmaps(self.graph)
        self.cold_pages = ColdPages(self.graph, self.views, BitmapPages(self.graph, self.player_bitmaps))
        self.view_reads = ViewReads(self.views)
        self.pulled_logs = PulledLogs(self.redis, settings.recount_interval_ms)
        self.pulled_friends = PulledFriends(
            self.graph,
            self.views,
            self.pulled_logs,
            wait_seconds=settings.signal_deadline_ms / 1000,
            stale_max_seconds=settings.stale_max_seconds,
        )
        self.live_sessions = LiveSessions(self.redis, settings.session_ttl_seconds)
        self.live_totals = LiveTotals(self.redis, settings.recount_interval_ms, settings.stale_max_seconds)
        self.catalogue = CatalogueMemory()
        self.deleted_users = DeletedUsers()
        if tokens is not None:
            tokens.refuse_users(self.deleted_users)
        friend_counts = FriendCounts(
            self.views,
            self.cold_pages,
            self.view_reads,
            self.pulled_friends,
            deadline_ms=settings.signal_deadline_ms,
            stale_max_seconds=settings.stale_max_seconds,
        )
        self.watched_pages = WatchedPages(friend_counts, self.live_totals, stale_max_seconds=settings.stale_max_seconds)
        self.services = Services(
            graph=self.graph,
            catalogue=self.catalogue,
            deleted_users=self.deleted_users,
            catalog_orders=CatalogOrders(self.catalogue, self.live_totals, self.redis),
            friend_counts=friend_counts,
            watched_pages=self.watched_pages,
            live_sessions=self.live_sessions,
            live_totals=self.live_totals,
            session_ttl_seconds=settings.session_ttl_seconds,
        )
        self.events = EventLog(self._events_client)
        self.shard_markers = ShardMarkers(self.redis)
        publisher = Publisher(self._events_client, lambda: self.graph.truth_id)
        self.markers = Markers(self.graph, self.redis, self.shard_markers, publisher)
        self.beginning = Beginning(
            self.graph, self.markers, self.shard_markers, self.catalogue, CatalogueCopy(self.redis), self._on_open()
        )
        self.replaced = asyncio.Event()  # another truth stands where this process opened one: it has to begin again
        self._truth_away = False
        self.workers = self._workers() if options.workers else None
        self.supervisor = Supervisor(self._jobs())
        self.metrics = self._metrics()
        self._graphql: GraphQLApp | None = None
        self._draining = False
        self._closing = AsyncExitStack()

    def _workers(self) -> Workers:
        return Workers(
            self.settings,
            self.graph,
            self.redis,
            self.views,
            self.events,
            self._events_client,
            markers=self.markers,
            shard_markers=self.shard_markers,
            beginning=self.beginning,
        )

    def _on_open(self) -> list[Callable[[], Awaitable[object]]]:
        """What follows the opening of the truth."""
        calls: list[Callable[[], Awaitable[object]]] = []
        if self.options.demo:
            calls.append(lambda: fill_demo_world(self.graph))
        calls.append(lambda: self.deleted_users.refresh(self.graph))
        return calls

    async def __aenter__(self) -> Application:
        """Open the stores, fill the demo world where one is wanted, start the jobs.

        Raises:
            GraphError: the truth cannot be used. One that is only unreachable is asked again, and pages are served from
                what Redis holds.
        """
        async with AsyncExitStack() as opening:
            opening.push_async_callback(self.redis.close)
            opening.push_async_callback(self._events_client.aclose)
            opening.push_async_callback(self.graph.close)
            await self.beginning.start()
            if self.workers is not None:
                opening.push_async_callback(self.workers.acknowledgements.close)
            opening.push_async_callback(self.cold_pages.close)
            opening.push_async_callback(self.pulled_friends.close)
            opening.push_async_callback(self.services.catalog_orders.close)
            opening.push_async_callback(self.live_sessions.close)
            self.supervisor.start()
            opening.push_async_callback(self.supervisor.stop)
            if self.options.web:
                await self._first_totals()
            self._closing = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the jobs, finish what was accepted, close the stores."""
        await self._closing.aclose()

    def asgi(self, *, shared_port: bool = False) -> ASGIApp:
        """The routes; `shared_port` where other processes answer on the same port."""
        assert self.tokens is not None  # noqa: S101  # for mypy: a web process has them
        tally = RequestTally()
        graphql = graphql_app(self.services, self.tokens, self.settings, dev=self.options.dev, tally=tally)
        self.deleted_users.on_growth(graphql.close_deleted)
        self._graphql = graphql
        self.metrics = self._metrics(tally, graphql)
        metrics: ASGIApp | None = NoMetrics() if shared_port else self.metrics
        return site(
            graphql,
            self._readiness,
            metrics=metrics if self.settings.metrics_port is None else None,
            dev_tokens=self.tokens if self.options.dev else None,
        )

    async def drain(self, spread_seconds: float) -> None:
        """Be ready for nobody any more, and tell all who are connected to come back later (`GraphQLApp.drain`)."""
        self._draining = True
        if self._graphql is not None:
            await self._graphql.drain(spread_seconds)

    def _metrics(self, tally: RequestTally | None = None, graphql: GraphQLApp | None = None) -> Metrics:
        """What this process is, in figures; with the requests that it answers, where it does."""
        figures = job_figures(self.supervisor)
        if graphql is not None:
            figures += page_figures(self.cold_pages, self.player_bitmaps, self.live_totals, self.watched_pages)
            figures += connection_figures(graphql)
        if self.workers is not None:
            figures += worker_figures(self.workers.view_audit, self.workers.live_audit)
        stores = store_figures(self.graph, self.views, self._events_client)
        return Metrics([] if tally is None else [tally], figures, stores)

    def _jobs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        jobs: dict[str, Callable[[], Awaitable[None]]] = {
            "beginning": self.beginning.run,
            "catalogue": self._keep_catalogue_fresh,
        }
        if self.options.web:
            jobs["live-totals"] = self.live_totals.run
            jobs["watched-pages"] = self.watched_pages.run
            jobs["view-reads"] = self.view_reads.run
            jobs["pulled-logs"] = self.pulled_logs.run
        if self.workers is not None:
            jobs |= self.workers.jobs
            if self.options.demo:
                jobs |= demo_jobs(self.settings, self.graph, self.live_sessions, self.beginning)
        return jobs

    async def _keep_catalogue_fresh(self) -> None:
        while True:
            await asyncio.sleep(CATALOGUE_REFRESH_SECONDS)
            try:
                await self.beginning.refresh_catalogue()
                await self.deleted_users.refresh(self.graph)
            except TruthReplacedError as error:
                log.error("truth_replaced", reason=str(error))
                self.replaced.set()
                return
            except GraphError as error:
                log.warning("catalogue_not_refreshed", reason=str(error))
                self._truth_away = True
            else:
                self._truth_away = False

    async def _first_totals(self) -> None:
        """Let the first live totals come, so that the first page shows them."""
        deadline = asyncio.get_running_loop().time() + FIRST_TOTALS_SECONDS
        while not self.live_totals.known and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110  # half a second, once
            await asyncio.sleep(0.02)

    def _readiness(self) -> tuple[bool, list[str]]:
        """Whether pages can be served, and which signals are degraded; from what is known, asking nobody."""
        degraded = []
        if self._truth_away or not self.beginning.truth_is_open:
            degraded.append("truth")
        if self.services.friend_counts.redis_rests:
            degraded.append("friendsPlayed")
        if not self.live_totals.known:
            degraded.append("livePlayers")
        return self.catalogue.loaded and not self._draining, degraded


def serve(settings: Settings, host: str, port: int, processes: int, *, workers: bool, dev: bool, demo: bool) -> int:
    """Serve until SIGINT or SIGTERM. Returns the exit code.

    Raises:
        StartError: one line that says why it cannot start.
    """
    with start_errors():
        if dev and not is_loopback(host):
            raise StartError(f"--dev hands out tokens, so it needs a loopback --host, not {host}")
        folder = DataFolder(settings.data_dir)
        folder.prepare()
        tokens = make_tokens(settings, loopback=is_loopback(host))
        _check(settings)
        folder.lock("serve")
        _configure_logging(settings)
        sock = listen(host, port)
        options = Options(web=processes == 1, workers=workers, dev=dev, demo=demo)
        return run(_serve(settings, options, tokens, sock, processes))


def work(settings: Settings) -> int:
    """Run the workers alone until SIGINT or SIGTERM. Returns the exit code.

    Raises:
        StartError: one line that says why it cannot start.
    """
    with start_errors():
        _configure_logging(settings)
        return run(_work(settings))


async def _serve(settings: Settings, options: Options, tokens: Tokens, sock: socket.socket, processes: int) -> int:
    async with AsyncExitStack() as closing:
        redis_url = settings.redis_url
        if redis_url is None:
            redis_url = await _start_embedded_redis(settings, closing)
        application = await closing.enter_async_context(Application(settings, redis_url, options, tokens))
        if options.web:
            asgi = application.asgi()
            freeze_garbage()
            async with running(application):
                await serve_app(
                    asgi,
                    sock,
                    on_started=lambda: greet(sock, tokens if options.dev else None),
                    drain=application.drain,
                )
            return 0
        # The address of an embedded Redis reaches the web processes as a setting.
        os.environ["HEADCOUNT_REDIS_URL"] = redis_url
        # -P: the working folder is the operator's, whose own `app.py` is not meant.
        web = WebProcesses(["-P", "-m", "app", "dev" if options.dev else "-"], sock, processes)
        children = asyncio.create_task(web.run(), name="web-processes")
        greet(sock, tokens if options.dev else None)
        try:
            async with running(application):
                await until_stopped()
        finally:
            children.cancel()
            await asyncio.gather(children, return_exceptions=True)
    return 0


async def _work(settings: Settings) -> int:
    redis_url = settings.redis_url
    if redis_url is None:
        # Beside a server its Redis is used; the workers of a server that is away have nothing to work on.
        folder = DataFolder(settings.data_dir)
        if folder.holder() is None:
            raise StartError(
                f"no server holds the data folder {folder.path}: start `headcount serve --no-workers` first, "
                "or set HEADCOUNT_REDIS_URL"
            )
        redis_url = socket_url(settings.data_dir)
    async with Application(settings, redis_url, Options(web=False)) as application, running(application):
        await until_stopped()
    return 0


async def _web_process(settings: Settings, sock: socket.socket, lifeline: int, number: int, *, dev: bool) -> int:
    """One of several web processes; its parent has the lock, the embedded Redis and the workers."""
    assert settings.redis_url is not None  # noqa: S101  # for mypy: the parent sets it
    tokens = make_tokens(settings, loopback=True)
    async with Application(settings, settings.redis_url, Options(workers=False, dev=dev), tokens) as application:
        asgi = application.asgi(shared_port=True)
        freeze_garbage()
        leave_with_parent(lifeline)
        async with running(application, number):
            await serve_app(asgi, sock, drain=application.drain)
    return 0


async def _start_embedded_redis(settings: Settings, closing: AsyncExitStack) -> str:
    embedded = EmbeddedRedis(settings.data_dir)
    closing.push_async_callback(embedded.stop)  # also where the start is broken off
    await embedded.start()
    return embedded.url


@asynccontextmanager
async def running(application: Application, number: int = 0) -> AsyncIterator[None]:
    """What a process does beside its work: figures on a port of their own, and an end where its truth was replaced."""
    metrics = metrics_site(application.metrics)
    async with leaving_when_replaced(application.replaced), metrics_port(metrics, application.settings, number):
        yield


@contextmanager
def start_errors() -> Iterator[None]:
    """What keeps a program from starting, as StartError."""
    try:
        yield
    except (DataFolderError, EmbeddedRedisError, GraphError, PortTakenError, SettingsError) as error:
        raise StartError(str(error)) from error


def _check(settings: Settings) -> None:
    """See that settings can be used which are read in web processes, or late: a start says what is wrong with them."""
    Origins(settings.allowed_origins)
    if settings.jwks_file is not None and settings.jwks_url is None:
        try:
            check_file(settings.jwks_file)
        except ValueError as error:
            raise SettingsError(f"HEADCOUNT_JWKS_FILE: {error}") from None


def _configure_logging(settings: Settings) -> None:
    configure_logging(settings.log_level)
    for name in unknown_settings():
        log.warning("setting_unknown", name=name)


if __name__ == "__main__":
    _, mode, which, *descriptors = sys.argv
    loaded = load_settings()
    configure_logging(loaded.log_level)
    inherited, pipe = socket.socket(fileno=int(descriptors[0])), int(descriptors[1])
    try:
        sys.exit(uvloop.run(_web_process(loaded, inherited, pipe, int(which), dev=mode == "dev")))
    except StartError as error:
        sys.exit(str(error))
