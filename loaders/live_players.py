"""The DataLoader behind `Game.livePlayers`: one look at this process's table of live totals, so that all counts of a
page are of the same recount.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from aiodataloader import DataLoader

from signals.live_totals import LiveTotals


class LiveCount(NamedTuple):
    """Live sessions of a game, the distinct people among them, and when that was counted (Unix seconds)."""

    sessions: int
    people: int
    as_of: float


Key: TypeAlias = int  # a game's number
Result: TypeAlias = LiveCount | None


def live_count(totals: LiveTotals, number: int) -> LiveCount | None:
    """The count of one game as this process knows it, None where it is unknown just now."""
    sessions, people, as_of = totals.sessions(number), totals.people(number), totals.as_of
    if sessions is None or people is None or as_of is None:
        return None
    return LiveCount(sessions, people, as_of)


class LivePlayersLoader(DataLoader[Key, Result]):
    """Live counts of games."""

    def __init__(self, totals: LiveTotals) -> None:
        super().__init__()
        self._totals = totals

    async def batch_load_fn(self, keys: list[Key]) -> list[Result]:
        """All keys from one state of the table: nothing is awaited in between."""
        return [live_count(self._totals, number) for number in keys]
