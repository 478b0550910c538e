"""The GraphQL contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import strawberry
from strawberry.extensions import SchemaExtension
from strawberry.schema.config import StrawberryConfig

from schema.mutation import Mutation
from schema.query import Query
from schema.scalars import DATE_TIME, DateTime
from schema.subscription import Subscription


def build_schema(
    extensions: Iterable[Callable[[], SchemaExtension]] = (), *, field_suggestions: bool = False
) -> strawberry.Schema:
    """The schema.

    Args:
        extensions: factories of Strawberry extensions (limits, caches, errors), made anew for each operation.
        field_suggestions: say "did you mean" in errors, which tells the schema to who guesses.
    """
    return strawberry.Schema(
        query=Query,
        mutation=Mutation,
        subscription=Subscription,
        extensions=extensions,
        config=StrawberryConfig(
            scalar_map={DateTime: DATE_TIME}, disable_field_suggestions=not field_suggestions, relay_max_results=100
        ),
    )
