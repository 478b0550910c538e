"""The GraphiQL page at `/graphql` and its files under `/assets/`: all from the built bundle, nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from server.replies import headers_of, send_reply

HTML = b"text/html; charset=utf-8"

_PAGE = "graphiql.html"
_CONFIG = re.compile(r'(<script id="headcount-config" type="application/json">).*?(</script>)', re.DOTALL)
_HASHED = re.compile(r"-[A-Za-z0-9_-]{8,}\.\w+$")
_NOT_BUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Headcount</title>
<p>GraphiQL is not built yet: run <code>make setup</code>, then start the server again.</p></html>
"""
# The editor sets styles from its code, runs workers of its own, and talks to this server only.
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"font-src 'self' data:; worker-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'"
)
_PAGE_HEADERS = [
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"vary", b"Accept"),
]


class GraphiQL:
    """The page, an ASGI application.

    Args:
        dist: the folder of the bundle, as `web/` builds it.
        dev: whether the page may ask for tokens.
        introspection: whether the editor may ask for the schema.
    """

    def __init__(self, dist: Path, *, dev: bool, introspection: bool) -> None:
        self._body: bytes | None = None
        self._etag = b""
        page = dist / _PAGE
        if page.is_file():
            config = orjson.dumps({"dev": dev, "introspection": introspection}).decode()
            text = _CONFIG.sub(lambda found: found[1] + config + found[2], page.read_text(encoding="utf-8"))
            self._body = text.encode()
            self._etag = b'"%s"' % hashlib.sha256(self._body).hexdigest()[:16].encode()

    @property
    def built(self) -> bool:
        """Whether there is a bundle to serve."""
        return self._body is not None

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        without_body = scope["method"] == "HEAD"
        if self._body is None:
            await send_reply(send, 503, _NOT_BUILT, HTML, _PAGE_HEADERS, without_body=without_body)
            return
        headers = [*_PAGE_HEADERS, (b"cache-control", b"no-cache"), (b"etag", self._etag)]
        if headers_of(scope).get(b"if-none-match") == self._etag:
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await send_reply(send, 200, self._body, HTML, headers, without_body=without_body)


class Assets(StaticFiles):
    """The bundle's files. Those with a hash in their name never change, so browsers keep them."""

    def __init__(self, dist: Path) -> None:
        super().__init__(directory=dist / "assets", check_dir=False)

    async def check_config(self) -> None:
        """A bundle that is not built yet is no fault: its files are just not there."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, or 404."""
        try:
            response = await super().get_response(path, scope)
        except HTTPException:
            return Response(status_code=404)
        response.headers["X-Content-Type-Options"] = "nosniff"
        if response.status_code == 200 and _HASHED.search(path):
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response
