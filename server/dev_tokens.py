"""The viewer picker of `serve --dev`: hands a token of any user to a page on this machine, and to nobody else."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

from starlette.types import Receive, Scope, Send

from resolvers.errors import BadInput, HeadcountError
from resolvers.identifiers import parse_id
from server.errors import error_body
from server.origins import same_origin
from server.replies import headers_of, send_json, send_reply
from server.tokens import SCOPES, Tokens

LIFETIME_SECONDS = 3_600

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_FORWARDED = frozenset({b"forwarded", b"via", b"x-real-ip"})
_OWN_PAGES = frozenset({b"same-origin", b"none"})  # `none`: the address was typed


class DevTokens:
    """`GET /dev/token?user=ID[&scope=S]`, an ASGI application. To whom it is not meant for it does not exist.

    Only a loopback peer with a localhost `Host` (so no other name that leads here) and no sign of a proxy is
    answered, and of web pages only those of this server.

    Args:
        tokens: signs; with public keys only there are no tokens to give.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["method"] != "GET" or not self._tokens.can_sign or not is_local(scope):
            await send_reply(send, 404, b"Not Found", b"text/plain; charset=utf-8")
            return
        query = parse_qs(scope["query_string"].decode("latin-1"))
        try:
            user_id = parse_id(query.get("user", [None])[-1], "user")
            token, expires_at = self._sign(user_id, query.get("scope", [""])[-1])
        except HeadcountError as error:
            await send_json(send, 422, {"errors": [error_body(error)]}, [(b"cache-control", b"no-store")])
            return
        answer = {"token": token, "expiresAt": expires_at}
        await send_json(send, 200, answer, [(b"cache-control", b"no-store")])

    def _sign(self, user_id: int, scope: str) -> tuple[str, str]:
        scopes = scope.split()
        if unknown := sorted(set(scopes) - SCOPES):
            raise BadInput("scope", f"must be of {', '.join(sorted(SCOPES))}, not {unknown[0][:40]!a}")
        token = self._tokens.sign(user_id, scopes, LIFETIME_SECONDS)
        expires_at = datetime.fromtimestamp(int(self._tokens.clock()) + LIFETIME_SECONDS, UTC)
        return token, expires_at.isoformat().replace("+00:00", "Z")


def is_local(scope: Scope) -> bool:
    """Whether a request comes from this machine, from a program or from a page of this server, past no proxy."""
    client = scope.get("client")
    headers = headers_of(scope)
    if client is None or not is_loopback(client[0]):
        return False
    if len(headers) < len(scope["headers"]) and sum(name == b"host" for name, _ in scope["headers"]) > 1:
        return False
    if any(name in _FORWARDED or name.startswith(b"x-forwarded") for name in headers):
        return False
    if headers.get(b"sec-fetch-site", b"none") not in _OWN_PAGES:
        return False
    if b"origin" in headers and not same_origin(headers):
        return False
    return _is_local_name(headers.get(b"host", b"").decode("latin-1"))


def is_loopback(address: str) -> bool:
    """Whether an address, or the name "localhost", leads to this machine alone."""
    if address == "localhost":
        return True
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def _is_local_name(host: str) -> bool:
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises where it is no number
    except ValueError:
        return False
    return parts.hostname in _LOCAL_NAMES and not (parts.username or parts.path or parts.query or parts.fragment)
