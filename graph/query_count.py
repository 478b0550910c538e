"""How many queries of the truth a request made, counted by the adapter where it makes them."""

from __future__ import annotations

from contextvars import ContextVar


class QueryCount:
    """The number of graph queries made on one account."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


#: The request on whose account queries are made; none outside a request.
query_count: ContextVar[QueryCount | None] = ContextVar("query_count", default=None)


def count_query() -> None:
    """Count one query in the caller's context. Called before the work goes to a thread, which has another one."""
    counter = query_count.get()
    if counter is not None:
        counter.count += 1
