"""The DataLoader behind `Game.uniquePlayersToday`: one look at this process's table of totals, which carries them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from aiodataloader import DataLoader

from signals.live_totals import LiveTotals

Key: TypeAlias = int  # a game's number
Result: TypeAlias = int | Exception


class UniquePlayersLoader(DataLoader[Key, Result]):
    """Distinct players of games on the UTC day.

    Args:
        totals: this process's table.
        unknown: makes the error of a game while they are unknown.
    """

    def __init__(self, totals: LiveTotals, unknown: Callable[[], Exception]) -> None:
        super().__init__()
        self._totals = totals
        self._unknown = unknown

    async def batch_load_fn(self, keys: list[Key]) -> list[Result]:
        """All keys from one state of the table."""
        counts = [self._totals.players_today(number) for number in keys]
        return [self._unknown() if count is None else count for count in counts]
