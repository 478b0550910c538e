"""Which web pages may talk to this server: its own, and those of the origins that are listed."""

from __future__ import annotations

from collections.abc import Iterable

from strawberry.http.websocket_origin import is_same_origin, normalize_allowed_origins, normalize_origin

from server.replies import Header
from settings import SettingsError

_EXPOSED = b"Server-Timing, X-Request-Id, Retry-After"
_ALLOWED_HEADERS = b"Authorization, Content-Type, X-Headcount-Cost, X-Request-Id"
_PREFLIGHT_SECONDS = b"7200"


class Origins:
    """The origins that are listed. Tokens travel in a header that no browser adds by itself, so none are "credentials".

    Args:
        allowed: origins such as "https://play.example", or "*".

    Raises:
        SettingsError: one of them is no origin.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        try:
            self._allowed = normalize_allowed_origins(list(allowed))
        except ValueError as error:
            raise SettingsError(f"HEADCOUNT_ALLOWED_ORIGINS: {str(error).split(' in allowed_origins')[0]}") from None

    def reply_headers(self, headers: dict[bytes, bytes]) -> list[Header]:
        """The CORS headers of a reply."""
        if not self._allowed:
            return []
        origin = headers.get(b"origin")
        if origin is None or not self._listed(origin):
            return [(b"vary", b"Origin")]
        return [
            (b"vary", b"Origin"),
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _EXPOSED),
            (b"timing-allow-origin", origin),
        ]

    def preflight_headers(self, headers: dict[bytes, bytes]) -> list[Header]:
        """The CORS headers of the reply to a preflight."""
        origin = headers.get(b"origin")
        if origin is None or not self._listed(origin):
            return [(b"vary", b"Origin")]
        return [
            (b"vary", b"Origin"),
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"POST"),
            (b"access-control-allow-headers", _ALLOWED_HEADERS),
            (b"access-control-max-age", _PREFLIGHT_SECONDS),
        ]

    def may_open_socket(self, headers: dict[bytes, bytes]) -> bool:
        """Whether a WebSocket may be opened. Browsers always send an origin; what sends none is no page."""
        origin = headers.get(b"origin")
        return origin is None or same_origin(headers) or self._listed(origin)

    def _listed(self, origin: bytes) -> bool:
        return "*" in self._allowed or normalize_origin(origin.decode("latin-1")) in self._allowed


def same_origin(headers: dict[bytes, bytes]) -> bool:
    """Whether the page that asks came from this host and port."""
    origin, host = headers.get(b"origin"), headers.get(b"host")
    return origin is not None and host is not None and is_same_origin(origin.decode("latin-1"), host.decode("latin-1"))
