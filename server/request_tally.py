"""What was asked, how it ended and what it took: counted a request, read when somebody scrapes.

Plain integers in plain lists: 2.8 us of CPU a request, where a counter and three histograms of prometheus-client, each
behind a lock, take 22.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from graphql import FieldNode, OperationDefinitionNode
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
TRIPS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0)

#: Of a request that was refused before it was an operation.
NO_OPERATION = "none"


class Histogram:
    """How many values were at or below each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """The cumulative buckets by their bounds, and the sum of all values."""
        buckets: list[tuple[str, float]] = []
        total = 0
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        return buckets, self._sum


class _Operation:
    """What is counted of one operation."""

    __slots__ = ("queries", "seconds", "statuses", "trips")

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.seconds = Histogram(SECONDS)
        self.trips = Histogram(TRIPS)
        self.queries = Histogram(TRIPS)


class RequestTally:
    """Requests of this process; a collector of prometheus-client."""

    def __init__(self) -> None:
        self._operations: dict[str, _Operation] = {}
        self._errors: dict[str, int] = {}

    def count(
        self,
        operation: OperationDefinitionNode | None,
        status: int,
        seconds: float,
        redis_round_trips: int,
        graph_queries: int,
        error_codes: Iterable[str],
    ) -> None:
        """Count a request that was answered; `status` is that of HTTP."""
        label = NO_OPERATION if operation is None else operation_label(operation)
        counted = self._operations.get(label)
        if counted is None:
            counted = self._operations[label] = _Operation()
        counted.statuses[status] = counted.statuses.get(status, 0) + 1
        counted.seconds.add(seconds)
        counted.trips.add(redis_round_trips)
        counted.queries.add(graph_queries)
        for code in error_codes:
            self._errors[code] = self._errors.get(code, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """The families, as prometheus-client asks for them."""
        requests = CounterMetricFamily(
            "headcount_requests", "GraphQL requests answered.", labels=["operation", "status"]
        )
        seconds = HistogramMetricFamily("headcount_request_seconds", "Time to answer.", labels=["operation"])
        trips = HistogramMetricFamily(
            "headcount_request_redis_round_trips", "Redis round trips of a request.", labels=["operation"]
        )
        queries = HistogramMetricFamily(
            "headcount_request_graph_queries", "Queries to the source of truth of a request.", labels=["operation"]
        )
        for label, counted in self._operations.items():
            for status, count in counted.statuses.items():
                requests.add_metric([label, str(status)], count)
            for family, histogram in ((seconds, counted.seconds), (trips, counted.trips), (queries, counted.queries)):
                buckets, sum_ = histogram.read()
                family.add_metric([label], buckets, sum_)
        errors = CounterMetricFamily("headcount_errors", "Replies with an error, by its code.", labels=["code"])
        for code, count in self._errors.items():
            errors.add_metric([code], count)
        yield from (requests, seconds, trips, queries, errors)


def operation_label(operation: OperationDefinitionNode) -> str:
    """The kind and the root field ("query games"), or "several" of them: what the schema has, never what a client says.

    For operations that were validated: then every root field is one of the schema's.
    """
    selections = operation.selection_set.selections
    field = selections[0]
    name = field.name.value if len(selections) == 1 and isinstance(field, FieldNode) else "several"
    return f"{operation.operation.value} {name}"
