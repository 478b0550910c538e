"""A process that records plays until it is killed or done, and prints each answer once it has it.

python -m tests.contract.write_plays ADAPTER PLACE CALLERS PLAYS USERS GAMES SEED
"""

from __future__ import annotations

import asyncio
import random
import sys
import time

from tests.contract.truths import ADAPTERS


async def main(adapter: str, place: str, callers: int, plays: int, users: int, games: int, seed: int) -> None:
    graph = ADAPTERS[adapter](place, time.time, 2000)
    await graph.open()

    async def caller(number: int) -> None:
        choose = random.Random(seed * 1_000 + number)
        for _ in range(plays):
            user, game = choose.randint(1, users), choose.randint(1, games)
            answer = await graph.record_play(user, game)
            sys.stdout.write(f"{user} {game} {answer.ordinal} {answer.first:d}\n")
            sys.stdout.flush()  # what was answered is in the pipe before the next play: a kill loses no answer

    await asyncio.gather(*(caller(number) for number in range(callers)))
    await graph.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
