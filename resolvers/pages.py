"""A page of a connection, as resolvers give it to the schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Node = TypeVar("Node")


@dataclass(frozen=True, slots=True)
class Edge(Generic[Node]):
    """A node and the cursor behind it."""

    cursor: str
    node: Node


@dataclass(frozen=True, slots=True)
class PageInfo:
    """Where a page stands in its list."""

    has_next_page: bool
    has_previous_page: bool
    start_cursor: str | None
    end_cursor: str | None


@dataclass(frozen=True, slots=True)
class Page(Generic[Node]):
    """A page of nodes, of a list of `total_count`."""

    total_count: int
    edges: Sequence[Edge[Node]]
    page_info: PageInfo

    @property
    def nodes(self) -> list[Node]:
        """The nodes without their cursors."""
        return [edge.node for edge in self.edges]


def page_of(edges: Sequence[Edge[Node]], *, total_count: int, has_next: bool, has_previous: bool) -> Page[Node]:
    """A page from its edges."""
    return Page(
        total_count=total_count,
        edges=edges,
        page_info=PageInfo(
            has_next_page=has_next,
            has_previous_page=has_previous,
            start_cursor=edges[0].cursor if edges else None,
            end_cursor=edges[-1].cursor if edges else None,
        ),
    )
