"""What the scripts of the friend-played views answer."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Outcome(IntEnum):
    """What a writing script did. Only APPLIED changed counts; BEING_BUILT marked the owner for the builder."""

    APPLIED = 1
    DUPLICATE = 2
    NOT_A_FRIEND = 3
    NOT_RESIDENT = 4
    GAP = 5
    BEING_BUILT = 6
    OLD_VERSION = 7
    STALE_TOKEN = 8
    PAST_LOG_END = 9


class BuildStatus(IntEnum):
    """What came of a build."""

    BUILT = 1
    REFUSED = 2
    DIRTY = 3


class BuildResult(NamedTuple):
    """What came of a build. When DIRTY: the next token, and the owners whose edge or log is to be read again."""

    status: BuildStatus
    token: str = ""
    dirty: Sequence[int] = ()
