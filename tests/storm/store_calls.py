"""The store calls that a schedule puts in order."""

from __future__ import annotations

from typing import Any

READS_OF_TRUTH = frozenset({"friends", "pulled_logs", "visibilities", "play_logs", "seen_logs"})
READS_OF_VIEWS = frozenset({"page", "token"})
WRITES_OF_VIEWS = frozenset({"claim", "build", "apply", "edge", "catch_up", "evict"})

CALLS_OF_VIEWS = READS_OF_VIEWS | WRITES_OF_VIEWS

CALLS_OF_OUTBOX = frozenset({"outbox", "mark_published", "acknowledge", "acknowledged_batch", "unacknowledge_after"})
CALLS_OF_TRUTH = READS_OF_TRUTH | CALLS_OF_OUTBOX
CALLS_OF_MARKERS = frozenset({"read", "settle", "move"})
CALLS_OF_LOG = frozenset({"adopt", "drop", "append", "stands"})
CALLS_OF_PARTITION = frozenset({"claim", "read", "acknowledge", "count_failure", "keep", "own_pending", "tidy"})
#: What emptying a shard consists of.
CALLS_OF_REDIS = frozenset({"run", "call"})


def viewers_written(args: tuple[Any, ...]) -> set[int]:
    """Whose views a call writes."""
    first = args[0]
    return {first} if isinstance(first, int) else {getattr(item, "viewer_id", item) for item in first}
