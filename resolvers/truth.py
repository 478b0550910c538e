"""What the truth refuses, in the words of the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graph.social_graph import UnknownGameError, UserDeletedError
from resolvers.errors import NotFound, Unauthenticated


@contextmanager
def truth_errors(**arguments: int) -> Iterator[None]:
    """Turn what the truth refuses into GraphQL errors. That it cannot be used, `server.errors` tells.

    Args:
        arguments: the user ids that arguments name, by argument name (GraphQL's spelling); another deleted user is
            the one of the token.
    """
    try:
        yield
    except UnknownGameError as error:
        raise NotFound("gameId", str(error)) from None
    except UserDeletedError as error:
        for argument, user_id in arguments.items():
            if user_id == error.user_id:
                raise NotFound(argument, f"no user has the id {user_id}") from None
        raise Unauthenticated("The user of this token was deleted.") from None
