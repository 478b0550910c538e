"""How many sockets and event streams each user has open on this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from resolvers.errors import LimitExceeded


class UserConnections:
    """Counts them, up to `most` a user. Those without a user are not counted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[int, int] = {}

    @property
    def users(self) -> int:
        """How many users have any open."""
        return len(self._open)

    @contextmanager
    def one_more(self, user_id: int | None) -> Iterator[None]:
        """A connection of a user, for as long as the context is open.

        Raises:
            LimitExceeded: the user has as many as are allowed.
        """
        if user_id is None:
            yield
            return
        now_open = self._open.get(user_id, 0) + 1
        if now_open > self._most:
            raise LimitExceeded("open sockets and event streams of one user", self._most, now_open)
        self._open[user_id] = now_open
        try:
            yield
        finally:
            self._open[user_id] -= 1
            if not self._open[user_id]:
                del self._open[user_id]
