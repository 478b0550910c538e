"""`/healthz`: the process lives. `/readyz`: it can serve, and what it serves less well than it should."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from starlette.types import Receive, Scope, Send

from resolvers.errors import BadInput
from server.errors import error_body
from server.replies import send_json

#: Whether requests can be served, and the names of what is degraded ("redis").
Readiness: TypeAlias = Callable[[], tuple[bool, Sequence[str]]]

_NOT_READY_RETRY_SECONDS = b"1"


class Alive:
    """`/healthz`, an ASGI application: answers as long as the process does anything at all."""

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        await _answer(scope, send, 200, {"status": "alive"})


class Ready:
    """`/readyz`, an ASGI application: 200 while requests are served, else 503; either way with what is degraded.

    Args:
        readiness: asked each time; must not wait for anything.
    """

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        ready, degraded = self._readiness()
        await _answer(
            scope,
            send,
            200 if ready else 503,
            {"status": "ready" if ready else "not ready", "degraded": list(degraded)},
        )


async def _answer(scope: Scope, send: Send, status: int, value: dict[str, Any]) -> None:
    method = scope["method"]
    if method not in {"GET", "HEAD"}:
        refused = {"errors": [error_body(BadInput("method", "must be GET"))]}
        await send_json(send, 405, refused, [(b"allow", b"GET, HEAD")])
        return
    headers = [(b"cache-control", b"no-store")]
    if status == 503:
        headers.append((b"retry-after", _NOT_READY_RETRY_SECONDS))
    await send_json(send, status, value, headers, without_body=method == "HEAD")
