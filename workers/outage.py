"""Which failures are a store's that is away for a while, and how long to wait before it is asked again."""

from __future__ import annotations

import re

import redis.exceptions

from graph.social_graph import TruthReplacedError, TruthUnavailableError

_STORE_ERRORS = (
    TruthUnavailableError,
    TruthReplacedError,
    OSError,  # TimeoutError is one
    redis.exceptions.ConnectionError,  # loading, failing authentication and "max clients" are ones
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.OutOfMemoryError,
    redis.exceptions.ClusterError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
    redis.exceptions.AskError,  # and MovedError: a slot on its way to another node
)
#: Replies with these codes mean that this server, now, takes no commands or no writes. MISCONF: its disk is full.
#: OTHERTRUTH: it holds what follows from another truth, and is emptied soon, or this process ends. In a
#: pipeline redis-py puts the command before the reply, and the reply in ('…').
_STORE_REPLIES = re.compile(
    r"(^|: \(')(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|OTHERTRUTH|READONLY|TRYAGAIN)\b"
)

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0


def is_outage(error: BaseException) -> bool:
    """Whether a failure says that a store is away, and nothing about what was asked of it."""
    if isinstance(error, _STORE_ERRORS):
        return True
    return isinstance(error, redis.exceptions.ResponseError) and _STORE_REPLIES.search(str(error)) is not None


def pause_seconds(failures: int) -> float:
    """How long to wait after the store failed this often in a row (1, 2, 3 …)."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 16), LONGEST_PAUSE_SECONDS)
