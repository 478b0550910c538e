"""Which media type a reply has, of GraphQL's two and that of event streams, and what that means for its status.

"GraphQL over HTTP": under `application/json` a well-formed request is answered 200 whatever GraphQL says of it; under
`application/graphql-response+json` a request that could not be executed is 400.
"""

from __future__ import annotations

from functools import lru_cache

from resolvers.errors import BadInput
from server.replies import JSON, HTTPRefusal

GRAPHQL_RESPONSE = b"application/graphql-response+json; charset=utf-8"
EVENT_STREAM = b"text/event-stream; charset=utf-8"

_LONGEST_ACCEPT = 1_024


def reply_type(accept: bytes | None) -> bytes:
    """The content type of the reply to a request with this `Accept` header.

    Raises:
        HTTPRefusal: 406, it takes none of the three.
    """
    if accept is None:
        return JSON
    chosen = _choose(accept[:_LONGEST_ACCEPT].decode("latin-1"))
    if chosen is None:
        rule = "must take application/graphql-response+json, application/json or text/event-stream"
        raise HTTPRefusal(406, BadInput("Accept", rule))
    return chosen


def takes_events(accept: bytes | None) -> bool:
    """Whether a reply to a request with this `Accept` header may be an event stream, liked best or not."""
    if accept is None:
        return False
    return any(reply is EVENT_STREAM for _, _, reply in _wanted(accept[:_LONGEST_ACCEPT].decode("latin-1")))


def takes_html(accept: bytes | None) -> bool:
    """Whether this is a browser that opens a page: it asks for HTML by name."""
    return accept is not None and b"text/html" in accept


def is_json(content_type: bytes | None) -> bool:
    """Whether a request's body is JSON in UTF-8."""
    if content_type == b"application/json":
        return True
    if content_type is None:
        return False
    kind, *parameters = content_type.decode("latin-1").lower().split(";")
    charsets = [
        value.strip(' "') for name, _, value in (p.partition("=") for p in parameters) if name.strip() == "charset"
    ]
    return kind.strip() == "application/json" and all(charset in {"utf-8", "utf8"} for charset in charsets)


@lru_cache(maxsize=64)
def _choose(accept: str) -> bytes | None:
    """The best liked; where several are liked alike, the one named first."""
    wanted = _wanted(accept)
    return min(wanted)[2] if wanted else None


def _wanted(accept: str) -> list[tuple[float, int, bytes]]:
    """What is taken: how well it is liked, negated, its place, and the content type."""
    wanted: list[tuple[float, int, bytes]] = []
    for position, entry in enumerate(accept.lower().split(",")):
        kind, *parameters = (part.strip() for part in entry.split(";"))
        quality = _quality(parameters)
        if quality <= 0:
            continue
        if kind == "application/graphql-response+json":
            wanted.append((-quality, position, GRAPHQL_RESPONSE))
        elif kind in {"application/json", "application/*", "*/*", ""}:
            wanted.append((-quality, position, JSON))
        elif kind == "text/event-stream":
            wanted.append((-quality, position, EVENT_STREAM))
    return wanted


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0
