"""Opaque cursors of connections: what list they belong to, and where in it they stand."""

from __future__ import annotations

import base64
import binascii

import orjson

from graph.social_graph import MAX_ID
from resolvers.errors import BadInput, LimitExceeded

MAX_FIRST = 100
MAX_CURSOR_CHARACTERS = 2000


def encode_cursor(kind: str, *position: int | str) -> str:
    """A cursor of the list `kind`."""
    return base64.urlsafe_b64encode(orjson.dumps([kind, *position])).decode().rstrip("=")


def decode_cursor(cursor: str, kind: str, *types: type[int] | type[str]) -> list[int | str]:
    """The position that a cursor of the list `kind` holds.

    Raises:
        BadInput: it was made up, or belongs to another list.
    """
    refused = BadInput("after", "must be a cursor that this list gave")
    if len(cursor) > MAX_CURSOR_CHARACTERS:
        raise refused
    try:
        # -len % 4: base64 wants its padding back
        decoded = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise refused from None
    if not isinstance(decoded, list) or decoded[:1] != [kind] or len(decoded) != len(types) + 1:
        raise refused
    if any(type(part) is not expected for part, expected in zip(decoded[1:], types, strict=True)):
        raise refused
    if any(isinstance(part, int) and not 0 <= part <= MAX_ID for part in decoded[1:]):
        raise refused
    return decoded[1:]


def check_first(first: int) -> int:
    """The length of a page, 1 to 100.

    Raises:
        BadInput: less than 1.
        LimitExceeded: more than 100.
    """
    if first < 1:
        raise BadInput("first", f"must be 1 to {MAX_FIRST}")
    if first > MAX_FIRST:
        raise LimitExceeded("first", limit=MAX_FIRST, actual=first)
    return first
