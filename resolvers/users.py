"""`deleteUser`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import strawberry

from resolvers.context import Info
from resolvers.identifiers import parse_id
from resolvers.truth import truth_errors

SCOPE = "users:write"


class DeletedUser(NamedTuple):
    """Whether this call deleted a user."""

    deleted: bool


async def delete_user(
    info: Info, user_id: Annotated[strawberry.ID, strawberry.argument(description="Id of the user to delete.")]
) -> DeletedUser:
    """Delete a user for good."""
    info.context.require_scope(SCOPE)
    user = parse_id(user_id, "userId")
    services = info.context.services
    with truth_errors(userId=user):
        deleted = await services.graph.delete_user(user)
    services.deleted_users.add(user)  # this process refuses their tokens at once, the others within two seconds
    return DeletedUser(deleted)
