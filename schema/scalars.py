"""Scalars of the contract."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import NewType

import strawberry

#: Unix seconds in Python, RFC 3339 in UTC outside.
DateTime = NewType("DateTime", float)


@lru_cache(maxsize=64)  # a page's sixty times are of one or two moments
def _rfc_3339(unix_seconds: float) -> str:
    moment = datetime.fromtimestamp(unix_seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _from_rfc_3339(text: str) -> DateTime:
    return DateTime(datetime.fromisoformat(text).timestamp())


DATE_TIME = strawberry.scalar(
    name="DateTime",
    description="A moment as RFC 3339 has it, in UTC with milliseconds: `2026-11-30T20:15:04.250Z`.",
    specified_by_url="https://www.rfc-editor.org/rfc/rfc3339",
    serialize=_rfc_3339,
    parse_value=_from_rfc_3339,
)
