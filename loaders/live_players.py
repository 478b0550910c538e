"""The DataLoader behind `Game.livePlayers`, `livePeople` and `uniquePlayersToday`: one look at this process's table of
live totals, so that all counts of a page are of the same recount.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeAlias, TypeVar

from aiodataloader import DataLoader

from signals.live_totals import LiveTotals

Count = TypeVar("Count", bound=int)
Key: TypeAlias = int  # a game's number


class LiveCount(int):
    """Live sessions of a game. A number, so that a field gives it as it is; `people` are the distinct users among them,
    `as_of` is when they were counted (Unix seconds).
    """

    people: int
    as_of: float

    def __new__(cls, sessions: int, people: int, as_of: float) -> Self:
        number = super().__new__(cls, sessions)
        number.people = people
        number.as_of = as_of
        return number


def live_count(totals: LiveTotals, number: int) -> LiveCount | None:
    """The count of one game as this process knows it, None where it is unknown just now."""
    sessions, people, as_of = totals.sessions(number), totals.people(number), totals.as_of
    if sessions is None or people is None or as_of is None:
        return None
    return LiveCount(sessions, people, as_of)


class TotalsLoader(DataLoader[Key, Count | Exception], Generic[Count]):
    """One of the counts of games.

    Args:
        read: the count of a game in this process's table; None where it is unknown just now.
        unknown: makes the error of a game while counts are unknown.
    """

    def __init__(self, read: Callable[[Key], Count | None], unknown: Callable[[], Exception]) -> None:
        super().__init__()
        self._read = read
        self._unknown = unknown

    async def batch_load_fn(self, keys: list[Key]) -> list[Count | Exception]:
        """All keys from one state of the table: nothing is awaited in between."""
        counts = [self._read(number) for number in keys]
        return [self._unknown() if count is None else count for count in counts]
