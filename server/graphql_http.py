"""`/graphql`: operations by POST (answered whole or as an event stream), the editor for browsers, WebSockets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import orjson
import strawberry
import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from resolvers.errors import BadInput, LimitExceeded, Unauthenticated, Unavailable
from server.cost import Cost
from server.errors import ErrorBody, Refused, codes, internal_error
from server.graphql_request import parse_request
from server.graphql_sse import GraphQLStreams
from server.graphql_websocket import GraphQLSockets
from server.limits import Limits
from server.negotiation import EVENT_STREAM, GRAPHQL_RESPONSE, is_json, reply_type, takes_events, takes_html
from server.operations import Answer, Ask, MakeContext, Operations
from server.origins import Origins
from server.replies import JSON, Header, HTTPRefusal, headers_of, read_body, request_id_of, send_reply
from server.request_tally import RequestTally
from server.tokens import Principal, Tokens
from server.user_connections import UserConnections

log = structlog.get_logger(__name__)

_METHODS = b"GET, HEAD, POST, OPTIONS"
_RETRY_SECONDS = b"5"


@dataclass(slots=True)
class _Exchange:
    """One request and what becomes of it."""

    headers: dict[bytes, bytes]
    request_id: str
    cost: Cost
    status: int = 200
    content_type: bytes = JSON
    reply_headers: Sequence[Header] = ()
    ask: Ask | None = None


class GraphQLApp:
    """The GraphQL endpoint, an ASGI application.

    Args:
        schema: what is served.
        make_context: makes `info.context` for each operation, and for each event of a subscription.
        tokens: tells who asks.
        limits: how much one request may ask for.
        allowed_origins: pages of other hosts that may use it (CORS, WebSocket); its own may always.
        introspection: whether the schema may be asked for.
        suggestions: whether errors say "did you mean".
        page: answers browsers that open the address; None: there is no page.
        tally: counts the requests, for metrics.

    Raises:
        SettingsError: one of the origins is none.
    """

    def __init__(
        self,
        schema: strawberry.Schema,
        *,
        make_context: MakeContext,
        tokens: Tokens,
        limits: Limits | None = None,
        allowed_origins: Sequence[str] = (),
        introspection: bool = False,
        suggestions: bool = False,
        page: ASGIApp | None = None,
        tally: RequestTally | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.operations = Operations(
            schema, make_context, self.limits, introspection=introspection, suggestions=suggestions
        )
        self.origins = Origins(allowed_origins)
        self.connections = UserConnections(self.limits.connections_a_user)
        self.sockets = GraphQLSockets(self.operations, tokens, self.limits, self.origins, self.connections)
        self.streams = GraphQLStreams(self.operations, tokens, self.limits)
        self._tokens = tokens
        self._page = page
        self._tally = tally

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self.sockets(scope, receive, send)
            return
        method = scope["method"]
        if method == "POST":
            await self._post(scope, receive, send)
        elif method in {"GET", "HEAD"} and self._page is not None and takes_html(headers_of(scope).get(b"accept")):
            await self._page(scope, receive, send)
        elif method == "OPTIONS":
            headers = self.origins.preflight_headers(headers_of(scope))
            await send_reply(send, 204, b"", headers=[(b"allow", _METHODS), *headers])
        else:
            await self._other(scope, send)

    async def _other(self, scope: Scope, send: Send) -> None:
        exchange = _exchange(scope)
        refusal = HTTPRefusal(405, BadInput("method", "must be POST"), [(b"allow", b"POST")])
        await self._send(exchange, send, _refuse(exchange, refusal), without_body=scope["method"] == "HEAD")

    def close_deleted(self) -> None:
        """Close what users have open who were deleted meanwhile."""
        self.sockets.close_deleted()
        self.streams.close_deleted()

    async def drain(self, spread_seconds: float) -> None:
        """Tell all who are connected to come back later, each at a moment of its own within so many seconds, once they
        have the replies that are under way.
        """
        await asyncio.gather(self.sockets.drain(spread_seconds), self.streams.drain(spread_seconds))

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _exchange(scope)
        try:
            principal, payload = await self._read(exchange, scope, receive)
            ask = self._ask(exchange, principal, payload)
            if ask is None:
                await self._stream(exchange, principal, payload, receive, send)
                return
            body = await self._answer(exchange, ask)
        except HTTPRefusal as refusal:
            body = _refuse(exchange, refusal)
        except Refused as refusal:
            exchange.status = _status(exchange, executed=False)
            body = {"errors": refusal.errors}
        except Exception as fault:
            exchange.status = 500
            body = {"errors": [internal_error(fault, exchange.request_id)]}
        await self._send(exchange, send, body)

    async def _read(
        self, exchange: _Exchange, scope: Scope, receive: Receive
    ) -> tuple[Principal | None, dict[str, Any]]:
        """Who asks, and `query`, `variables` and `operationName`."""
        headers = exchange.headers
        exchange.content_type = reply_type(headers.get(b"accept"))
        if not is_json(headers.get(b"content-type")):
            raise HTTPRefusal(415, BadInput("Content-Type", "must be application/json, in UTF-8"))
        principal = await self._principal(scope, headers)
        return principal, parse_request(await read_body(receive, headers, self.limits))

    def _ask(self, exchange: _Exchange, principal: Principal | None, payload: dict[str, Any]) -> Ask | None:
        """What to answer whole; None where the reply is to be a stream, which then tells of what is wrong too."""
        if exchange.content_type is EVENT_STREAM:
            return None
        document = self.operations.documents.prepare(payload["query"])
        operation = document.operation(payload["operationName"])
        ask = exchange.ask = Ask(document, operation, payload["variables"], principal, exchange.request_id)
        if not ask.is_subscription:
            return ask
        if takes_events(exchange.headers.get(b"accept")):
            return None
        rule = "must not be a subscription here: those need a WebSocket, or `Accept: text/event-stream`"
        raise Refused.because(BadInput("query", rule))

    async def _stream(
        self,
        exchange: _Exchange,
        principal: Principal | None,
        payload: dict[str, Any],
        receive: Receive,
        send: Send,
    ) -> None:
        with ExitStack() as connection:
            try:
                connection.enter_context(self.connections.one_more(None if principal is None else principal.user_id))
            except LimitExceeded as error:
                raise HTTPRefusal(429, error, [(b"retry-after", _RETRY_SECONDS)]) from None
            await self.streams.serve(
                receive,
                send,
                payload,
                principal=principal,
                request_id=exchange.request_id,
                headers=self.origins.reply_headers(exchange.headers),
                with_cost=exchange.headers.get(b"x-headcount-cost") == b"1",
            )

    async def _answer(self, exchange: _Exchange, ask: Ask) -> dict[str, Any]:
        answer: Answer = await self.operations.run(ask)
        exchange.status = _status(exchange, executed=answer.executed)
        return answer.body()

    async def _principal(self, scope: Scope, headers: dict[bytes, bytes]) -> Principal | None:
        """Who asks: nobody where there is no token at all. A bad one is never nobody."""
        authorization = headers.get(b"authorization")
        if authorization is None:
            return None
        try:
            if len(headers) < len(scope["headers"]) and _times(scope, b"authorization") > 1:
                raise Unauthenticated("There must be one Authorization header.")
            return await self._tokens.verify_header(authorization.decode("latin-1"))
        except Unauthenticated as error:
            raise HTTPRefusal(401, error, [(b"www-authenticate", b'Bearer error="invalid_token"')]) from None
        except Unavailable as error:
            raise HTTPRefusal(503, error, [(b"retry-after", _RETRY_SECONDS)]) from None

    async def _send(self, exchange: _Exchange, send: Send, body: dict[str, Any], *, without_body: bool = False) -> None:
        if exchange.headers.get(b"x-headcount-cost") == b"1":
            body["extensions"] = {"cost": exchange.cost.extension()}
        try:
            encoded = orjson.dumps(body)
        except TypeError as fault:
            exchange.status = 500
            body = {"errors": [internal_error(fault, exchange.request_id)]}
            encoded = orjson.dumps(body)
        headers: list[Header] = [
            (b"x-request-id", exchange.request_id.encode()),
            (b"server-timing", exchange.cost.server_timing()),
            (b"cache-control", b"no-store"),
            *exchange.reply_headers,
            *self.origins.reply_headers(exchange.headers),
        ]
        self._count(exchange, body.get("errors", ()))
        await send_reply(send, exchange.status, encoded, exchange.content_type, headers, without_body=without_body)

    def _count(self, exchange: _Exchange, errors: Sequence[ErrorBody]) -> None:
        cost, ask = exchange.cost, exchange.ask
        error_codes = codes(errors) if errors else ()
        milliseconds = cost.milliseconds()
        _log(exchange, milliseconds, error_codes)
        if self._tally is not None:
            operation = None if ask is None else ask.operation
            trips, queries = cost.redis_round_trips, cost.graph_queries
            self._tally.count(operation, exchange.status, milliseconds / 1000, trips, queries, error_codes)


def _exchange(scope: Scope) -> _Exchange:
    headers = headers_of(scope)
    return _Exchange(headers, request_id_of(headers), Cost())


def _refuse(exchange: _Exchange, refusal: HTTPRefusal) -> dict[str, Any]:
    exchange.status = refusal.status
    if exchange.content_type is EVENT_STREAM:
        exchange.content_type = JSON
    exchange.reply_headers = refusal.headers
    return {"errors": refusal.errors}


def _status(exchange: _Exchange, *, executed: bool) -> int:
    """The status of a reply that GraphQL made."""
    return 400 if not executed and exchange.content_type is GRAPHQL_RESPONSE else 200


def _times(scope: Scope, name: bytes) -> int:
    return sum(1 for key, _ in scope["headers"] if key == name)


def _log(exchange: _Exchange, milliseconds: float, error_codes: Sequence[str]) -> None:
    ask = exchange.ask
    log.info(
        "graphql",
        operation=ask.shown_name if ask else "",
        type=ask.operation.operation.value if ask else "",
        status=exchange.status,
        ms=round(milliseconds, 2),
        redis_round_trips=exchange.cost.redis_round_trips,
        graph_queries=exchange.cost.graph_queries,
        request_id=exchange.request_id,
        **({"codes": error_codes} if error_codes else {}),
    )
