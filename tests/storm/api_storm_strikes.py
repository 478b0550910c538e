"""Who is struck when: one or two at once, in turn, by a seed."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence

from tests.storm.api_storm_processes import Victim

#: Between a start and the next strike; and between a strike and the start after it.
CALM_SECONDS = (0.5, 3.5)
DOWN_SECONDS = (0.0, 1.5)
TWO_AT_ONCE = 0.3


class Strikes:
    """Kills and starts again.

    Args:
        victims: whom; each is struck once a round, in an order that changes.
        chance: decides when, in which order, and what else is lost.
    """

    def __init__(self, victims: Sequence[Victim], chance: random.Random) -> None:
        self.kills: Counter[str] = Counter()
        self._victims = victims
        self._chance = chance

    async def run(self, seconds: float, rounds: int) -> None:
        """Whole rounds, so many at least, until the time is over. Everything runs when it returns."""
        ends = time.monotonic() + seconds
        while rounds > 0 or time.monotonic() < ends:
            rounds -= 1
            turns = self._chance.sample(self._victims, len(self._victims))
            while turns:
                struck = [turns.pop() for _ in range(min(len(turns), 1 + (self._chance.random() < TWO_AT_ONCE)))]
                await asyncio.sleep(self._chance.uniform(*CALM_SECONDS))
                for victim in struck:
                    await victim.kill(self._chance)
                    self.kills[victim.name] += 1
                for victim in self._chance.sample(struck, len(struck)):
                    await asyncio.sleep(self._chance.uniform(*DOWN_SECONDS))
                    await victim.start()
