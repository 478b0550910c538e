"""The values that fields of imported files may hold."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from graph.game_values import MAX_NAME_CHARACTERS, MAX_URL_CHARACTERS, is_http_address, is_storable
from graph.imports.tables import is_text
from graph.social_graph import MAX_ID

#: How far a play may lie ahead of this machine's clock before it counts as a wrong time.
FUTURE_LEEWAY_SECONDS = 86_400

_SHOWN_CHARACTERS = 40
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_UNIX_SECONDS = re.compile(r"(\d{1,15})(?:\.(\d{1,9}))?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadValueError(Exception):
    """A field breaks a rule, which is the text."""


def read_id(value: str) -> int:
    """A user's or a game's id.

    Raises:
        BadValueError: not a decimal from 1 to 2**63-1 without leading zeros.
    """
    # The length is looked at first: int() of a very long text takes quadratic time.
    if (
        value.isdigit()
        and value.isascii()
        and len(value) <= 19
        and value[0] != "0"
        and (number := int(value)) <= MAX_ID
    ):
        return number
    raise BadValueError(f"{shown(value)} is not an id, which is a decimal from 1 to {MAX_ID}")


def read_name(value: str) -> str:
    """A name, with the tabs and line breaks inside it and without white space around it.

    Raises:
        BadValueError: empty, too long, not UTF-8, or with a NUL in it.
    """
    value = value.strip()
    if not value:
        raise BadValueError("the name is empty")
    if len(value) > MAX_NAME_CHARACTERS:
        raise BadValueError(f"the name has {len(value)} characters, more than {MAX_NAME_CHARACTERS}")
    _check_text(value)
    return value


def read_image_url(value: str) -> str | None:
    """An image's address, None where the field is empty.

    Raises:
        BadValueError: not an http or https address, too long, or not UTF-8.
    """
    if not value:
        return None
    _check_text(value)
    if not is_http_address(value):
        raise BadValueError(f"{shown(value)} is not an http or https address")
    if len(value) > MAX_URL_CHARACTERS:
        raise BadValueError(f"the address has {len(value)} characters, more than {MAX_URL_CHARACTERS}")
    return value


def read_time(value: str, now_seconds: float) -> int | None:
    """A time in Unix milliseconds, None where the field is empty.

    Args:
        value: RFC 3339 with an offset ("2026-11-30T18:00:00Z"), or Unix seconds, both with or without a fraction.
        now_seconds: the clock, Unix seconds.

    Raises:
        BadValueError: neither of the two, before 1970, or more than a day ahead of the clock.
    """
    if not value:
        return None
    if len(value) <= 15 and value.isdigit() and value.isascii():  # nearly all: a third of what the pattern costs
        milliseconds = int(value) * 1000
    elif parts := _UNIX_SECONDS.fullmatch(value):
        milliseconds = int(parts[1]) * 1000 + int(((parts[2] or "") + "000")[:3])
    elif _RFC_3339.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value.upper())
        except ValueError as error:
            raise BadValueError(f"{shown(value)} is not a time ({error})") from None
        since = moment - _EPOCH
        milliseconds = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    else:
        raise BadValueError(f"{shown(value)} is neither RFC 3339 with an offset nor Unix seconds")
    if milliseconds < 0:
        raise BadValueError(f"{shown(value)} lies before 1970")
    if milliseconds > (now_seconds + FUTURE_LEEWAY_SECONDS) * 1000:
        raise BadValueError(f"{shown(value)} lies in the future (Unix times are in seconds)")
    return milliseconds


def shown(value: str) -> str:
    """A value as a message shows it: quoted, printable, and not longer than a message should be."""
    text = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
    return repr(text).replace(r"\udc", r"\x")  # a byte that is not UTF-8 is read as U+DC80 to U+DCFF (PEP 383)


def _check_text(value: str) -> None:
    if not is_storable(value):
        raise BadValueError("the text has a NUL character in it")
    if not is_text(value):
        raise BadValueError(f"{shown(value)} is not UTF-8; save the file as UTF-8")
