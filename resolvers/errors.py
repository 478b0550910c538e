"""What a field can answer instead of a value. Each error has a code and details that callers can act on.

`extensions` is what a GraphQL reply carries beside the message; graphql-core copies it from the exception.
"""

from __future__ import annotations

from typing import ClassVar


class HeadcountError(Exception):
    """An answer meant for the caller: its text and its extensions are sent as they are."""

    code: ClassVar[str]

    def __init__(self, message: str, **details: str | int | float) -> None:
        super().__init__(message)
        self.message = message
        self.extensions: dict[str, str | int | float] = {"code": self.code, **details}


class BadInput(HeadcountError):  # noqa: N818  # the reply's word for it, as all below
    """An argument breaks a rule.

    Args:
        argument: its name as the caller knows it.
        rule: what it must be, so that "`argument` rule" reads as a sentence ("must be …").
    """

    code = "BAD_INPUT"

    def __init__(self, argument: str, rule: str) -> None:
        super().__init__(f"{argument} {rule}", argument=argument)
        self.argument = argument


class NotFound(HeadcountError):  # noqa: N818
    """What an argument names does not exist.

    Args:
        argument: its name as the caller knows it.
        message: a sentence that says what is missing.
    """

    code = "NOT_FOUND"

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(message, argument=argument)
        self.argument = argument


class Unauthenticated(HeadcountError):  # noqa: N818
    """There is no token where one is needed, or it is not good. The text never holds the token."""

    code = "UNAUTHENTICATED"

    def __init__(self, message: str = "This needs a token: send it as `Authorization: Bearer …`.") -> None:
        super().__init__(message)


class Forbidden(HeadcountError):  # noqa: N818
    """The token is good and does not allow this."""

    code = "FORBIDDEN"


class LimitExceeded(HeadcountError):  # noqa: N818
    """A request asks for more than is allowed.

    Args:
        what: the argument, or what is counted ("ids", "aliases", "body bytes").
        limit: the most that is allowed.
        actual: what was asked; where counting stopped early, the smallest it can be.
    """

    code = "LIMIT_EXCEEDED"

    def __init__(self, what: str, limit: int, actual: int) -> None:
        super().__init__(f"{what}: {actual} is over the limit of {limit}", limit=limit, actual=actual)


class RateLimited(HeadcountError):  # noqa: N818
    """Too many requests in a time; `retry_after_seconds` from now one will be taken again."""

    code = "RATE_LIMITED"

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message, retryAfterSeconds=retry_after_seconds)
        self.retry_after_seconds = retry_after_seconds


class Unavailable(HeadcountError):  # noqa: N818
    """A store does not answer, so a signal is unknown just now.

    Args:
        signal: the field or the store that is missing ("friendsPlayed", "livePlayers", "truth").
        message: a sentence for people; by default one that names the signal.
    """

    code = "UNAVAILABLE"

    def __init__(self, signal: str, message: str | None = None) -> None:
        super().__init__(message or f"{signal} is not available just now", signal=signal)
        self.signal = signal
