"""What a web process answers: its routes, and the GraphQL application behind the first of them."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp

from resolvers.context import Context
from resolvers.services import Services
from schema import build_schema
from server.dev_tokens import DevTokens
from server.graphiql import Assets, GraphiQL
from server.graphql_http import GraphQLApp
from server.health import Alive, Readiness, Ready
from server.request_tally import RequestTally
from server.tokens import Principal, Tokens
from settings import Settings

DIST = Path(__file__).parent.parent / "web" / "dist"


def graphql_app(
    services: Services, tokens: Tokens, settings: Settings, *, dev: bool, tally: RequestTally
) -> GraphQLApp:
    """GraphQL over HTTP and WebSockets, and its editor.

    Args:
        services: what resolvers work with.
        tokens: who is let in as whom.
        settings: of the process.
        dev: introspection, field suggestions and the viewer picker.
        tally: counts the requests.
    """

    def make_context(principal: Principal | None, request_id: str) -> Context:
        if principal is None:
            return Context(services, None, frozenset(), request_id)
        return Context(services, principal.user_id, principal.scopes, request_id)

    introspection = dev or settings.introspection
    return GraphQLApp(
        build_schema(),
        make_context=make_context,
        tokens=tokens,
        allowed_origins=settings.allowed_origins,
        introspection=introspection,
        suggestions=dev,
        page=GraphiQL(DIST, dev=dev, introspection=introspection),
        tally=tally,
    )


def site(
    graphql: GraphQLApp, readiness: Readiness, *, metrics: ASGIApp | None, dev_tokens: Tokens | None = None
) -> Starlette:
    """All routes of a web process.

    Args:
        graphql: the application behind `/graphql`.
        readiness: what `/readyz` says.
        metrics: behind `/metrics`; None where figures have a port of their own.
        dev_tokens: hands out tokens at `/dev/token`; None outside development.
    """
    routes: list[BaseRoute] = [
        Route("/graphql", graphql),
        WebSocketRoute("/graphql", graphql),
        Mount("/assets", Assets(DIST)),
        Route("/healthz", Alive()),
        Route("/readyz", Ready(readiness)),
        Route("/", RedirectResponse("/graphql")),
    ]
    if metrics is not None:
        routes.append(Route("/metrics", metrics))
    if dev_tokens is not None:
        routes.append(Route("/dev/token", DevTokens(dev_tokens)))
    return Starlette(routes=routes)


def metrics_site(metrics: ASGIApp) -> Starlette:
    """The route of a port for figures alone."""
    return Starlette(routes=[Route("/metrics", metrics)])
