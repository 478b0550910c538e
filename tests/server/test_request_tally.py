"""What requests are counted as: figures against known traffic, and labels that no client can make."""

from __future__ import annotations

import pytest
from graphql import OperationDefinitionNode, parse
from prometheus_client.registry import CollectorRegistry

from server.request_tally import Histogram, RequestTally, operation_label


def operation(text: str) -> OperationDefinitionNode:
    node = parse(text).definitions[0]
    assert isinstance(node, OperationDefinitionNode)
    return node


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("{ games(ids: []) { id } }", "query games"),
        ("query AnyNameAtAll { alias: game(id: 1) { id } }", "query game"),
        ("mutation { recordPlay(gameId: 1) { first } }", "mutation recordPlay"),
        ("subscription { livePlayers(gameIds: []) { gameId } }", "subscription livePlayers"),
        ("{ a: game(id: 1) { id } b: game(id: 2) { id } }", "query several"),
        ("query { ... on Query { game(id: 1) { id } } }", "query several"),
        ("{ ...f } fragment f on Query { game(id: 1) { id } }", "query several"),
    ],
)
def test_an_operation_is_named_by_the_schema(text: str, label: str) -> None:
    assert operation_label(operation(text)) == label


def test_traffic_is_counted() -> None:
    tally = RequestTally()
    registry = CollectorRegistry()
    registry.register(tally)
    games, play = operation("{ games(ids: []) { id } }"), operation("mutation { recordPlay(gameId: 1) { first } }")
    for milliseconds in (0.5, 1.0, 3.0, 3.0, 9_000.0):
        tally.count(games, 200, milliseconds / 1000, 1, 0, ())
    tally.count(games, 200, 0.02, 2, 1, ["UNAVAILABLE"])
    tally.count(play, 200, 0.004, 0, 1, ["NOT_FOUND"])
    tally.count(None, 401, 0.001, 0, 0, ["UNAUTHENTICATED"])
    tally.count(None, 401, 0.001, 0, 0, ["UNAUTHENTICATED"])

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("headcount_requests_total", operation="query games", status="200") == 6
    assert value("headcount_requests_total", operation="mutation recordPlay", status="200") == 1
    assert value("headcount_requests_total", operation="none", status="401") == 2
    buckets = {
        bound: value("headcount_request_seconds_bucket", operation="query games", le=bound)
        for bound in ("0.001", "0.0025", "0.005", "0.025", "2.5", "+Inf")
    }
    assert buckets == {"0.001": 2, "0.0025": 2, "0.005": 4, "0.025": 5, "2.5": 5, "+Inf": 6}
    assert value("headcount_request_seconds_count", operation="query games") == 6
    assert value("headcount_request_seconds_sum", operation="query games") == pytest.approx(9.0275)
    assert value("headcount_request_redis_round_trips_bucket", operation="query games", le="1.0") == 5
    assert value("headcount_request_graph_queries_sum", operation="query games") == 1
    assert value("headcount_errors_total", code="UNAUTHENTICATED") == 2
    assert value("headcount_errors_total", code="NOT_FOUND") == 1


def test_a_value_on_a_bound_is_within_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.0, 1.0, 1.1, 2.0, 2.1):
        histogram.add(value)
    buckets, total = histogram.read()
    assert buckets == [("1.0", 2), ("2.0", 4), ("+Inf", 5)]
    assert total == pytest.approx(6.2)
