"""The composition root: settings and stores in, a served application out."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import structlog
import uvloop
from starlette.applications import Starlette
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp

from events.dead_letters import DeadLetters
from events.event_progress import EventProgress
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
from resolvers.catalog_orders import CatalogOrders
from resolvers.context import Context
from resolvers.services import Services
from schema import build_schema
from server.dev_tokens import DevTokens, is_loopback
from server.graphiql import Assets, GraphiQL
from server.graphql_http import GraphQLApp
from server.health import Alive, Ready
from server.logs import configure_logging
from server.metric_figures import job_figures, page_figures, socket_figures, store_figures, worker_figures
from server.metrics import Metrics, NoMetrics
from server.request_tally import RequestTally
from server.serving import (
    PortTakenError,
    WebProcesses,
    leave_with_parent,
    listen,
    serve_app,
    serve_beside,
    until_stopped,
)
from server.signing_keys import check_file
from server.tokens import Principal, Tokens, make_tokens
from settings import Settings, SettingsError, load_settings, unknown_settings
from signals.catalogue_copy import CatalogueCopy
from signals.embedded_redis import EmbeddedRedis, EmbeddedRedisError, socket_url
from signals.fence import Fence, Witness
from signals.hidden_users import HiddenUsers
from signals.live_sessions import LiveSessions
from signals.live_totals import LiveTotals
from signals.markers import ShardMarkers
from signals.pulled_logs import PulledLogs
from signals.redis import SharedRedis, connect
from signals.views import FriendViews
from workers.acknowledgements import Acknowledgements
from workers.beginning import Beginning
from workers.chosen_truth import choose_truth
from workers.demo_players import DemoPlayers
from workers.demo_world import fill_demo_world
from workers.fan_out import FanOut
from workers.fan_out_consumer import fan_out_jobs
from workers.in_flight import InFlight
from workers.lease import Lease
from workers.live_visibility import LiveVisibility
from workers.markers import Markers
from workers.outbox_relay import OutboxRelay
from workers.pulled_logs import LEASE_NAME as PULLED_LOGS_LEASE_NAME
from workers.pulled_logs import PulledLogsPublisher, lease_seconds
from workers.reconcile import Reconcile
from workers.recount import LEASE_NAME, LEASE_SECONDS, Recount
from workers.supervisor import Supervisor
from workers.view_audit import ViewAudit
from workers.view_janitor import ViewJanitor

log = structlog.get_logger(__name__)

CATALOGUE_REFRESH_SECONDS = 2.0
#: How long a truth that does not answer is waited for before pages are served without it.
TRUTH_START_SECONDS = 1.0
#: How long a start waits for the first live totals before it serves without them.
FIRST_TOTALS_SECONDS = 2.0
RELAY_LEASE_SECONDS = 2.5
#: The audit's lease outlasts the longest that one of its batches waits for events in flight.
AUDIT_LEASE_SECONDS = 60.0
AUDIT_WAIT_SECONDS = 40.0
DEV_USER_ID = 1
DEV_TOKEN_SECONDS = 86_400
DIST = Path(__file__).parent / "web" / "dist"


class StartError(Exception):
    """The program cannot start; the text is one line for the terminal."""


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
        self.services = Services(
            graph=self.graph,
            catalogue=self.catalogue,
            deleted_users=self.deleted_users,
            catalog_orders=CatalogOrders(self.catalogue, self.live_totals, self.redis),
            friend_counts=FriendCounts(
                self.views,
                self.cold_pages,
                self.view_reads,
                self.pulled_friends,
                deadline_ms=settings.signal_deadline_ms,
                stale_max_seconds=settings.stale_max_seconds,
            ),
            live_sessions=self.live_sessions,
            live_totals=self.live_totals,
            session_ttl_seconds=settings.session_ttl_seconds,
        )
        self.events = EventLog(self._events_client)
        self._witness = Witness()
        self.shard_markers = ShardMarkers(self.redis)
        publisher = Publisher(self._events_client, lambda: self.graph.truth_id)
        self.markers = Markers(self.graph, self.redis, self.shard_markers, publisher)
        self.acknowledgements = Acknowledgements(self.graph, self.shard_markers, self._witness)
        self.beginning = Beginning(
            self.graph, self.markers, self.shard_markers, self.catalogue, CatalogueCopy(self.redis), self._on_open()
        )
        self.replaced = asyncio.Event()  # another truth stands where this process opened one: it has to begin again
        self._truth_away = False
        self.view_audit: ViewAudit | None = None
        self.supervisor = Supervisor(self._jobs())
        self.metrics = self._metrics()
        self._closing = AsyncExitStack()

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
            opening.push_async_callback(self.acknowledgements.close)
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
        dev = self.options.dev
        introspection = dev or self.settings.introspection
        tally = RequestTally()
        graphql = GraphQLApp(
            build_schema(),
            make_context=self._context,
            tokens=self.tokens,
            allowed_origins=self.settings.allowed_origins,
            introspection=introspection,
            suggestions=dev,
            page=GraphiQL(DIST, dev=dev, introspection=introspection),
            tally=tally,
        )
        self.metrics = self._metrics(tally, graphql)
        self.deleted_users.on_growth(graphql.sockets.close_deleted)
        routes: list[BaseRoute] = [
            Route("/graphql", graphql),
            WebSocketRoute("/graphql", graphql),
            Mount("/assets", Assets(DIST)),
            Route("/healthz", Alive()),
            Route("/readyz", Ready(self._readiness)),
            *self._metrics_route(shared_port=shared_port),
            Route("/", RedirectResponse("/graphql")),
        ]
        if dev:
            routes.append(Route("/dev/token", DevTokens(self.tokens)))
        return Starlette(routes=routes)

    def metrics_asgi(self) -> ASGIApp:
        """The route of a port for figures alone."""
        return Starlette(routes=[Route("/metrics", self.metrics)])

    def _metrics_route(self, *, shared_port: bool) -> list[BaseRoute]:
        if self.settings.metrics_port is not None:
            return []
        return [Route("/metrics", NoMetrics() if shared_port else self.metrics)]

    def _metrics(self, tally: RequestTally | None = None, graphql: GraphQLApp | None = None) -> Metrics:
        """What this process is, in figures; with the requests that it answers, where it does."""
        figures = job_figures(self.supervisor)
        if graphql is not None:
            figures += page_figures(self.cold_pages, self.player_bitmaps, self.live_totals)
            figures += socket_figures(graphql.sockets)
        if self.view_audit is not None:
            figures += worker_figures(self.view_audit)
        stores = store_figures(self.graph, self.views, self._events_client)
        return Metrics([] if tally is None else [tally], figures, stores)

    def _context(self, principal: Principal | None, request_id: str) -> Context:
        if principal is None:
            return Context(self.services, None, frozenset(), request_id)
        return Context(self.services, principal.user_id, principal.scopes, request_id)

    def _jobs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        jobs: dict[str, Callable[[], Awaitable[None]]] = {
            "beginning": self.beginning.run,
            "catalogue": self._keep_catalogue_fresh,
        }
        if self.options.web:
            jobs["live-totals"] = self.live_totals.run
            jobs["view-reads"] = self.view_reads.run
            jobs["pulled-logs"] = self.pulled_logs.run
        if self.options.workers:
            settings, redis = self.settings, self.redis
            recount_lease = Lease(redis, LEASE_NAME, LEASE_SECONDS)
            relay_lease = Lease(redis, "outbox-relay", RELAY_LEASE_SECONDS)
            fence = Fence(lambda: self.graph.truth_id, self._witness)
            witnessed_views = FriendViews(redis, fence=fence)
            live_visibility = LiveVisibility(self.graph, HiddenUsers(redis, fence))
            fan_out = FanOut(self.graph, witnessed_views, live_visibility)
            dead_letters = DeadLetters(self._events_client)
            jobs["recount"] = Recount(
                redis, settings.session_ttl_seconds, settings.recount_interval_ms, recount_lease, live_visibility
            ).run
            relay = OutboxRelay(self.graph, self.events, relay_lease, markers=self.markers)
            interval_ms = settings.recount_interval_ms
            pulled_lease = Lease(redis, PULLED_LOGS_LEASE_NAME, lease_seconds(interval_ms))
            jobs["pulled-logs-publisher"] = PulledLogsPublisher(self.graph, redis, interval_ms, pulled_lease).run
            jobs["outbox-relay"] = self.beginning.before(relay.run)
            janitor = ViewJanitor(self.views, settings.view_idle_seconds)
            jobs["view-janitor"] = self.beginning.before(janitor.run)
            consumers = fan_out_jobs(self.events, fan_out, dead_letters, acknowledgements=self.acknowledgements)
            jobs |= {name: self.beginning.before(job) for name, job in consumers.items()}
            in_flight = InFlight(self.graph, EventProgress(self._events_client), longest_seconds=AUDIT_WAIT_SECONDS)
            audit_lease = Lease(redis, "view-audit", AUDIT_LEASE_SECONDS)
            reconcile = Reconcile(self.graph, self.views, in_flight, repair=True)
            self.view_audit = ViewAudit(self.views, reconcile, audit_lease)
            jobs["view-audit"] = self.beginning.before(self.view_audit.run)
            if self.options.demo:
                players = DemoPlayers(self.live_sessions, self.graph, ttl_seconds=settings.session_ttl_seconds)
                jobs["demo-players"] = self.beginning.before(players.run)
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
        return self.catalogue.loaded, degraded


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
        _check_keys(settings)
        folder.lock("serve")
        _configure_logging(settings)
        sock = listen(host, port)
        options = Options(web=processes == 1, workers=workers, dev=dev, demo=demo)
        return _run(_serve(settings, options, tokens, sock, processes))


def work(settings: Settings) -> int:
    """Run the workers alone until SIGINT or SIGTERM. Returns the exit code.

    Raises:
        StartError: one line that says why it cannot start.
    """
    with start_errors():
        _configure_logging(settings)
        return _run(_work(settings))


def _run(program: Coroutine[object, object, int]) -> int:
    """Run to the end. SIGINT and SIGTERM during the start end it in order too: what it started is stopped."""

    async def stoppable() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  # for mypy: this runs in one

        def stop(number: int) -> None:
            loop.remove_signal_handler(number)  # the second one ends the program where it stands
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)  # until the started program sets its own
        return await program

    try:
        return uvloop.run(stoppable())
    except asyncio.CancelledError:
        return 0


async def _serve(settings: Settings, options: Options, tokens: Tokens, sock: socket.socket, processes: int) -> int:
    async with AsyncExitStack() as closing:
        redis_url = settings.redis_url
        if redis_url is None:
            redis_url = await _start_embedded_redis(settings, closing)
        application = await closing.enter_async_context(Application(settings, redis_url, options, tokens))
        if options.web:
            asgi = application.asgi()
            _freeze_garbage()
            async with leaving_when_replaced(application), metrics_port(application):
                await serve_app(asgi, sock, on_started=lambda: _greet(sock, tokens, options))
            return 0
        # The address of an embedded Redis reaches the web processes as a setting.
        os.environ["HEADCOUNT_REDIS_URL"] = redis_url
        # -P: the working folder is the operator's, whose own `app.py` is not meant.
        web = WebProcesses(["-P", "-m", "app", "dev" if options.dev else "-"], sock, processes)
        children = asyncio.create_task(web.run(), name="web-processes")
        _greet(sock, tokens, options)
        try:
            async with leaving_when_replaced(application), metrics_port(application):
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
    async with (
        Application(settings, redis_url, Options(web=False)) as application,
        leaving_when_replaced(application),
        metrics_port(application),
    ):
        await until_stopped()
    return 0


async def _web_process(settings: Settings, sock: socket.socket, lifeline: int, number: int, *, dev: bool) -> int:
    """One of several web processes; its parent has the lock, the embedded Redis and the workers."""
    assert settings.redis_url is not None  # noqa: S101  # for mypy: the parent sets it
    tokens = make_tokens(settings, loopback=True)
    async with Application(settings, settings.redis_url, Options(workers=False, dev=dev), tokens) as application:
        asgi = application.asgi(shared_port=True)
        _freeze_garbage()
        leave_with_parent(lifeline)
        async with leaving_when_replaced(application), metrics_port(application, number):
            await serve_app(asgi, sock)
    return 0


async def _start_embedded_redis(settings: Settings, closing: AsyncExitStack) -> str:
    embedded = EmbeddedRedis(settings.data_dir)
    closing.push_async_callback(embedded.stop)  # also where the start is broken off
    await embedded.start()
    return embedded.url


@asynccontextmanager
async def leaving_when_replaced(application: Application) -> AsyncIterator[None]:
    """Stop this process, as SIGTERM would, when another truth takes the place of the one it opened.

    All that it holds in memory is of the truth that is gone. Started again, it empties what is derived.

    Raises:
        StartError: that happened; one line.
    """

    async def leave() -> None:
        await application.replaced.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    leaving = asyncio.create_task(leave(), name="leaving-when-replaced")
    try:
        yield
    finally:
        leaving.cancel()
    if application.replaced.is_set():
        raise StartError("another truth stands where this program opened one (a restore?): start it again")


@asynccontextmanager
async def metrics_port(application: Application, number: int = 0) -> AsyncIterator[None]:
    """Serve the figures of this process on a port of their own, where one is set.

    Args:
        application: whose figures.
        number: 0 for the first process; web processes beside it (1, 2 …) take the ports that follow.
    """
    settings = application.settings
    if settings.metrics_port is None:
        yield
        return
    async with serve_beside(application.metrics_asgi(), listen(settings.metrics_host, settings.metrics_port + number)):
        yield


@contextmanager
def start_errors() -> Iterator[None]:
    """What keeps a program from starting, as StartError."""
    try:
        yield
    except (DataFolderError, EmbeddedRedisError, GraphError, PortTakenError, SettingsError) as error:
        raise StartError(str(error)) from error


def _check_keys(settings: Settings) -> None:
    if settings.jwks_file is not None and settings.jwks_url is None:
        try:
            check_file(settings.jwks_file)
        except ValueError as error:
            raise SettingsError(f"HEADCOUNT_JWKS_FILE: {error}") from None


def _configure_logging(settings: Settings) -> None:
    configure_logging(settings.log_level)
    for name in unknown_settings():
        log.warning("setting_unknown", name=name)


def _freeze_garbage() -> None:
    """Keep what a start made out of every collection, and collect less often: a quarter less CPU a page."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _greet(sock: socket.socket, tokens: Tokens, options: Options) -> None:
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"Headcount listens on http://{shown}:{port}")
    click.echo(f"  GraphiQL  http://{shown}:{port}/graphql")
    if options.dev and tokens.can_sign:
        click.echo(f"  A token   {tokens.sign(DEV_USER_ID, (), DEV_TOKEN_SECONDS)}")
        click.echo(f"            (user {DEV_USER_ID}, for a day; `{_program()} token USER` prints more)")


def _program() -> str:
    """What a person types to call this program: its name, or in a checkout its path below this folder."""
    called = sys.argv[0]
    return called if shutil.which("headcount") is None and Path(called).name == "headcount" else "headcount"


if __name__ == "__main__":
    _, mode, which, *descriptors = sys.argv
    loaded = load_settings()
    configure_logging(loaded.log_level)
    inherited, pipe = socket.socket(fileno=int(descriptors[0])), int(descriptors[1])
    try:
        sys.exit(uvloop.run(_web_process(loaded, inherited, pipe, int(which), dev=mode == "dev")))
    except StartError as error:
        sys.exit(str(error))
