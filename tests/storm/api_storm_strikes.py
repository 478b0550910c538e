"""Who is struck when: one or two at once, in turn, by a seed."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from tests.storm.api_storm_processes import Victim
from tests.waiting import until

#: Between a start and the next strike; and between a strike and the start after it.
CALM_SECONDS = (0.2, 3.0)
#: No strike before clients have had so many answers since the last start: on a slow machine too there is something to
#: be lost. Where that takes too long, it is struck all the same.
CALM_ANSWERS = 60
LONGEST_CALM_SECONDS = 30.0
DOWN_SECONDS = (0.0, 1.5)
TWO_AT_ONCE = 0.3


class Strikes:
    """Kills and starts again.

    Args:
        victims: whom; each is struck once a round, in an order that changes.
        chance: decides when, and in which order.
        answers: how many answers clients have had so far.
    """

    def __init__(self, victims: Sequence[Victim], chance: random.Random, answers: Callable[[], int]) -> None:
        self.kills: Counter[str] = Counter()
        self._victims = victims
        self._chance = chance
        self._answers = answers

    async def run(self, seconds: float, rounds: int) -> None:
        """Whole rounds, so many at least, until the time is over. Everything runs when it returns."""
        ends = time.monotonic() + seconds
        while rounds > 0 or time.monotonic() < ends:
            rounds -= 1
            turns = self._chance.sample(self._victims, len(self._victims))
            while turns:
                struck = [turns.pop() for _ in range(min(len(turns), 1 + (self._chance.random() < TWO_AT_ONCE)))]
                await self._calm()
                for victim in struck:
                    await victim.kill()
                    self.kills[victim.name] += 1
                for victim in self._chance.sample(struck, len(struck)):
                    await asyncio.sleep(self._chance.uniform(*DOWN_SECONDS))
                    await victim.start()

    async def _calm(self) -> None:
        enough = self._answers() + CALM_ANSWERS
        with suppress(TimeoutError):
            await until(lambda: self._answers() >= enough, seconds=LONGEST_CALM_SECONDS)
        await asyncio.sleep(self._chance.uniform(*CALM_SECONDS))
