"""The DataLoader behind `Game.livePlayers`: one look at this process's table of live totals, so that all counts of a
page are of the same recount.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeAlias

from aiodataloader import DataLoader

from signals.live_totals import LiveTotals


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


Key: TypeAlias = int  # a game's number
Result: TypeAlias = LiveCount | Exception


def live_count(totals: LiveTotals, number: int) -> LiveCount | None:
    """The count of one game as this process knows it, None where it is unknown just now."""
    sessions, people, as_of = totals.sessions(number), totals.people(number), totals.as_of
    if sessions is None or people is None or as_of is None:
        return None
    return LiveCount(sessions, people, as_of)


class LivePlayersLoader(DataLoader[Key, Result]):
    """Live counts of games.

    Args:
        totals: this process's table.
        unknown: makes the error of a game while counts are unknown.
    """

    def __init__(self, totals: LiveTotals, unknown: Callable[[], Exception]) -> None:
        super().__init__()
        self._totals = totals
        self._unknown = unknown

    async def batch_load_fn(self, keys: list[Key]) -> list[Result]:
        """All keys from one state of the table: nothing is awaited in between."""
        counts = [live_count(self._totals, number) for number in keys]
        return [self._unknown() if count is None else count for count in counts]
