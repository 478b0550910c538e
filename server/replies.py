"""HTTP replies straight to ASGI, and the refusals that never reach GraphQL."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import orjson
from starlette.types import Receive, Scope, Send

from resolvers.errors import BadInput, HeadcountError, LimitExceeded
from server.errors import ErrorBody, error_body
from server.limits import Limits

Header: TypeAlias = tuple[bytes, bytes]

JSON = b"application/json; charset=utf-8"

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


class HTTPRefusal(Exception):  # noqa: N818  # an answer, not a fault
    """A request answered by its HTTP status, with an `errors` body like every other answer.

    Args:
        status: the HTTP status.
        error: what the body says.
        headers: what the status asks for beside it (`Allow`, `WWW-Authenticate`, `Retry-After`).
    """

    def __init__(self, status: int, error: HeadcountError, headers: Sequence[Header] = ()) -> None:
        super().__init__(error.message)
        self.status = status
        self.errors: list[ErrorBody] = [error_body(error)]
        self.headers = headers


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The request's headers by lower-case name; of a repeated one the last."""
    return dict(scope["headers"])


def request_id_of(headers: dict[bytes, bytes]) -> str:
    """The caller's `X-Request-Id` where it is a plain short text, else a new one."""
    given = headers.get(b"x-request-id")
    if given is not None:
        text = given.decode("latin-1")
        if _REQUEST_ID.fullmatch(text):
            return text
    return os.urandom(8).hex()


async def read_body(receive: Receive, headers: dict[bytes, bytes], limits: Limits) -> bytes:
    """The whole body.

    Raises:
        HTTPRefusal: 413 where it is, or says it is, longer than allowed (nothing more of it is kept); 408 where it
            does not come; 400 where it stops halfway.
    """
    length = headers.get(b"content-length")
    if length is not None and length.isdigit() and int(length) > limits.body_bytes:
        raise _too_long(limits, int(length))
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        try:
            async with asyncio.timeout(limits.body_seconds):
                body = await _read_on(receive, body, limits)
        except TimeoutError:
            raise HTTPRefusal(408, BadInput("body", "must come whole within a few seconds")) from None
    elif message["type"] == "http.disconnect":
        raise HTTPRefusal(400, BadInput("body", "must come whole"))
    if len(body) > limits.body_bytes:
        raise _too_long(limits, len(body))
    return body


async def _read_on(receive: Receive, first: bytes, limits: Limits) -> bytes:
    parts, total = [first], len(first)
    while True:
        if total > limits.body_bytes:
            raise _too_long(limits, total)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPRefusal(400, BadInput("body", "must come whole"))
        parts.append(message.get("body", b""))
        total += len(parts[-1])
        if not message.get("more_body"):
            return b"".join(parts)


def _too_long(limits: Limits, actual: int) -> HTTPRefusal:
    return HTTPRefusal(413, LimitExceeded("body bytes", limits.body_bytes, actual))


async def send_reply(
    send: Send,
    status: int,
    body: bytes,
    content_type: bytes = JSON,
    headers: Iterable[Header] = (),
    *,
    without_body: bool = False,
) -> None:
    """Send a whole reply; `without_body` for HEAD, whose headers are those of GET."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", content_type),
                (b"content-length", b"%d" % len(body)),
                (b"x-content-type-options", b"nosniff"),
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": b"" if without_body else body})


async def send_json(
    send: Send, status: int, value: Any, headers: Iterable[Header] = (), *, without_body: bool = False
) -> None:
    """Send a value as JSON."""
    await send_reply(send, status, orjson.dumps(value), JSON, headers, without_body=without_body)
