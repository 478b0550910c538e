"""Identifiers as they come from outside: users and games are decimal 64-bit integers, sessions short opaque texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from graph.social_graph import MAX_ID
from resolvers.errors import BadInput, LimitExceeded

MAX_PAGE = 100

# One spelling an id: no sign, no leading zero, no other script's digits, so that equal ids are equal texts.
_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_ID_RULE = f"must be a decimal integer from 1 to {MAX_ID}"
_SHOWN_CHARACTERS = 40


def parse_id(value: object, argument: str) -> int:
    """The id of a user or a game.

    Args:
        value: what the caller sent.
        argument: the argument's name, for the error.

    Raises:
        BadInput: it is not a decimal integer from 1 to 2**63-1.
    """
    number = _number(value)
    if number is None:
        raise BadInput(argument, f"{_ID_RULE}, not {_shown(value)}")
    return number


def parse_ids(values: Sequence[object], argument: str, maximum: int = MAX_PAGE) -> list[int]:
    """A list of ids, in the order given and with its repetitions.

    Raises:
        BadInput: it is empty, or one of them is malformed (the text says which).
        LimitExceeded: it is longer than `maximum`.
    """
    if not values:
        raise BadInput(argument, "must not be empty")
    if len(values) > maximum:
        raise LimitExceeded(argument, maximum, len(values))
    numbers = [_number(value) for value in values]
    if None in numbers:
        position = numbers.index(None)
        raise BadInput(argument, f"at position {position} {_ID_RULE}, not {_shown(values[position])}")
    return cast("list[int]", numbers)


def parse_session_id(value: object, argument: str) -> str:
    """A session id: 1 to 64 letters, digits, `_` and `-`.

    Raises:
        BadInput: it is anything else.
    """
    if isinstance(value, str) and _SESSION_ID.fullmatch(value):
        return value
    raise BadInput(argument, f"must be 1 to 64 characters of A-Z, a-z, 0-9, _ and -, not {_shown(value)}")


def _number(value: object) -> int | None:
    if isinstance(value, str) and _ID.fullmatch(value):
        number = int(value)
        return number if number <= MAX_ID else None
    return None


def _shown(value: object) -> str:
    """The value for an error text: quoted, control characters escaped, cut where it is long."""
    if not isinstance(value, str):
        return type(value).__name__
    if len(value) <= _SHOWN_CHARACTERS:
        return ascii(value)
    return f"{value[:_SHOWN_CHARACTERS]!a}… ({len(value)} characters)"
