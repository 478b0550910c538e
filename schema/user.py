"""`User`."""

from __future__ import annotations

import strawberry


@strawberry.type(description="A user of the platform.")
class User:
    id: strawberry.ID = strawberry.field(description="Decimal id, 1 to 2^63-1.")
    name: str | None = strawberry.field(description="Display name; null where the platform told none.")
