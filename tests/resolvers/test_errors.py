from __future__ import annotations

import pytest
from graphql.error import located_error

from resolvers.errors import (
    BadInput,
    Forbidden,
    HeadcountError,
    LimitExceeded,
    NotFound,
    RateLimited,
    Unauthenticated,
    Unavailable,
)


@pytest.mark.parametrize(
    ("error", "extensions"),
    [
        (BadInput("first", "must be 1 to 100"), {"code": "BAD_INPUT", "argument": "first"}),
        (NotFound("id", "no game has the id 7"), {"code": "NOT_FOUND", "argument": "id"}),
        (Unauthenticated(), {"code": "UNAUTHENTICATED"}),
        (Forbidden("no"), {"code": "FORBIDDEN"}),
        (LimitExceeded("aliases", 60, 2000), {"code": "LIMIT_EXCEEDED", "limit": 60, "actual": 2000}),
        (RateLimited("slower", 1.5), {"code": "RATE_LIMITED", "retryAfterSeconds": 1.5}),
        (Unavailable("livePlayers"), {"code": "UNAVAILABLE", "signal": "livePlayers"}),
    ],
)
def test_a_graphql_reply_carries_the_code_and_its_details(error: HeadcountError, extensions: object) -> None:
    located = located_error(error, path=["games", 0])
    assert located.extensions == extensions
    assert located.message == error.message == str(error)
