"""Cold pages of viewers with many friends: from the friends' logs, and from player bitmaps.

python -m bench.bitmaps [--users 3000] [--plays 500] [--folder F]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from graph.player_bitmaps import PlayerBitmaps
from graph.social_graph import FriendshipRow, GameRow, PlayRow
from graph.sqlite import SQLiteGraph
from loaders.friend_plays import FriendPlays

GAMES = 5_000
PAGE = 30
ROUNDS = 15
BATCH = 5_000


async def median_ms(work: Callable[[], Awaitable[object]]) -> float:
    """The median time of some runs, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        await work()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


async def measure(folder: Path, users: int, plays: int) -> None:
    """Fill a truth and take the figures."""
    choose = random.Random(1)
    graph = SQLiteGraph(folder / "bench.db", fanout_max_friends=10 * users)
    await graph.open()
    await graph.save_games([GameRow(game_id, None) for game_id in range(1, GAMES + 1)])
    ids = choose.sample(range(1, 2**62), users)  # as platforms with 64-bit ids have them
    rows = [PlayRow(user_id, game_id) for user_id in ids for game_id in choose.sample(range(1, GAMES + 1), plays)]
    for start in range(0, len(rows), BATCH):
        await graph.import_rows("plays", rows[start : start + BATCH])
    for friends in sorted({min(count, users) for count in (300, 1_000, users)}):
        viewer = 2**62 + friends
        await graph.import_rows("friends", [FriendshipRow(viewer, friend) for friend in choose.sample(ids, friends)])
        numbers = choose.sample(range(1, GAMES + 1), PAGE)
        bitmaps = PlayerBitmaps(graph)

        async def from_logs(viewer: int = viewer, numbers: list[int] = numbers) -> list[int]:
            return FriendPlays(await graph.seen_logs(viewer)).counts(numbers)

        async def from_bitmaps(
            viewer: int = viewer, numbers: list[int] = numbers, bitmaps: PlayerBitmaps = bitmaps
        ) -> list[int]:
            lengths = await graph.seen_owners(viewer)
            await bitmaps.catch_up(lengths)
            return bitmaps.counts(list(lengths), numbers)

        logs_ms = await median_ms(from_logs)
        begun = time.process_time()
        assert await from_bitmaps() == await from_logs()  # noqa: S101  # a figure of other counts would be none
        made_ms = (time.process_time() - begun) * 1e3 - logs_ms
        bitmaps_ms = await median_ms(from_bitmaps)
        print(
            f"{friends:,} friends x {plays} plays: logs {logs_ms:.1f} ms, bitmaps {bitmaps_ms:.1f} ms "
            f"(made once for {made_ms:.0f} ms of CPU, {bitmaps.size_bytes / 1e6:.1f} MB)"
        )
    await graph.close()


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=3_000, help="users that play, all friends of the last viewer")
    parser.add_argument("--plays", type=int, default=500, help="plays of each")
    parser.add_argument("--folder", type=Path, help="where the truth is made")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        asyncio.run(measure(Path(folder), arguments.users, arguments.plays))


if __name__ == "__main__":
    main()
