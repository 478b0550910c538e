"""What the truth refuses, in the words of the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from graph.social_graph import TruthReplacedError, TruthUnavailableError, UnknownGameError, UserDeletedError
from resolvers.errors import NotFound, Unauthenticated, Unavailable

log = structlog.get_logger(__name__)


@contextmanager
def truth_errors(**arguments: int) -> Iterator[None]:
    """Turn the truth's errors into GraphQL ones.

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
    except (TruthUnavailableError, TruthReplacedError) as error:
        log.warning(
            "truth_unavailable", reason=str(error)
        )  # a full disk, say: the operator's to know, not the caller's
        raise Unavailable("truth") from None
