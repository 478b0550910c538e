"""What a request took, counted where the calls are made."""

from __future__ import annotations

import time

from graph.query_count import QueryCount, query_count
from signals.redis import RoundTrips, round_trips


class Cost:
    """Counts from its making on, for the current task and those it starts."""

    __slots__ = ("_queries", "_started", "_trips")

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._trips = RoundTrips()
        self._queries = QueryCount()
        round_trips.set(self._trips)
        query_count.set(self._queries)

    @property
    def redis_round_trips(self) -> int:
        """Redis round trips so far; what left in one pipeline is one."""
        return self._trips.count

    @property
    def graph_queries(self) -> int:
        """Queries to the source of truth so far."""
        return self._queries.count

    def milliseconds(self) -> float:
        """Time so far."""
        return (time.perf_counter() - self._started) * 1000

    def extension(self) -> dict[str, int]:
        """`extensions.cost` of a reply."""
        return {"redisRoundTrips": self._trips.count, "graphQueries": self._queries.count}

    def server_timing(self) -> bytes:
        """The `Server-Timing` header: the same numbers for a browser's developer tools, and the time."""
        return b'total;dur=%.2f, redisRoundTrips;desc="%d", graphQueries;desc="%d"' % (
            self.milliseconds(),
            self._trips.count,
            self._queries.count,
        )
