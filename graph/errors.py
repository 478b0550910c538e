"""What the truth can answer instead of a result."""

from __future__ import annotations


class GraphError(Exception):
    """Any of them."""


class UnknownGameError(GraphError):
    """No game has this id."""

    def __init__(self, game_id: int) -> None:
        super().__init__(f"no game has the id {game_id}")
        self.game_id = game_id


class UserDeletedError(GraphError):
    """The user was deleted; a deleted id never returns."""

    def __init__(self, user_id: int) -> None:
        super().__init__(f"user {user_id} was deleted")
        self.user_id = user_id


class TruthUnavailableError(GraphError):
    """The store does not answer, is full, or lost the connection; the text says which."""


class TruthUnreachableError(TruthUnavailableError):
    """The store does not answer just now and may do so later: a start goes on without it, and asks again."""


class TruthReplacedError(GraphError):
    """Another truth (a restored one) stands where this process opened one: what is derived must be emptied."""
