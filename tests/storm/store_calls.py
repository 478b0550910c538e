"""The store calls that a schedule puts in order."""

from __future__ import annotations

from typing import Any

READS_OF_TRUTH = frozenset({"friends", "pulled_logs", "visibilities", "play_logs", "seen_logs"})
READS_OF_VIEWS = frozenset({"page", "token"})
WRITES_OF_VIEWS = frozenset({"claim", "build", "apply", "edge", "catch_up", "evict"})

#: What may be slow in a schedule; more often what stands between a read of the truth and what is made of it.
SLOW_CALLS = ["build", "build", "build", "seen_logs", "edge", "edge", "catch_up", "apply", "play_logs", "visibilities"]


def viewers_written(args: tuple[Any, ...]) -> set[int]:
    """Whose views a call writes."""
    first = args[0]
    return {first} if isinstance(first, int) else {getattr(item, "viewer_id", item) for item in first}
