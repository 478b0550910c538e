"""What a page costs with a friend whose plays are pulled: where the view stands at the end of the log, and where it is
behind by one play.

    python -m bench.pull

Stores of its own: SQLite in a temporary folder, and an embedded Redis. Wall time in microseconds, one page at a time
and 32 viewers at once, the best of some runs.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from graph.social_graph import FriendshipRow, GameRow, PlayRow
from graph.sqlite import SQLiteGraph
from loaders.cold_pages import ColdPages
from loaders.friend_counts import FriendCounts
from loaders.pulled_friends import PulledFriends
from loaders.view_reads import ViewReads
from signals.embedded_redis import EmbeddedRedis
from signals.pulled_logs import PulledLogs
from signals.redis import SharedRedis, connect
from signals.views import FriendViews

RUNS = 20
GAMES = 3_000
STAR = 10**6
VIEWERS = range(1, 65)
AT_ONCE = 32


class Bench:
    """Pages of 64 viewers with 50 friends each, one of them a star with a log of 500 games."""

    def __init__(self, graph: SQLiteGraph, redis: SharedRedis) -> None:
        self.graph = graph
        self.views = FriendViews(redis)
        self.lengths = PulledLogs(redis, 10**9)
        self.cold_pages = ColdPages(graph, self.views)
        pulled = PulledFriends(graph, self.views, self.lengths, wait_seconds=5, stale_max_seconds=60)
        reads = ViewReads(self.views)
        self.counts = FriendCounts(self.views, self.cold_pages, reads, pulled, deadline_ms=10_000, stale_max_seconds=60)
        self.random = Random(1)
        self.unplayed = list(range(501, GAMES + 1))

    async def run(self) -> None:
        await self.graph.save_games([GameRow(game, None) for game in range(1, GAMES + 1)])
        friends = [FriendshipRow(viewer, 1_000 + viewer * 50 + n) for viewer in VIEWERS for n in range(49)]
        await self.graph.import_rows("friends", [*friends, *(FriendshipRow(STAR, viewer) for viewer in VIEWERS)])
        plays = [PlayRow(row.friend_id, self.random.randrange(1, GAMES)) for row in friends for _ in range(40)]
        await self.graph.import_rows("plays", [*plays, *(PlayRow(STAR, game) for game in range(1, 501))])
        await self.publish()
        await asyncio.gather(*(self.page(viewer) for viewer in VIEWERS))
        await self.cold_pages.close()
        await self.measure("a page, cursors at the lengths", 1, behind=False)
        await self.measure("a page, one friend one play behind", 1, behind=True)
        await self.measure(f"a page, cursors at the lengths, {AT_ONCE} viewers at once", AT_ONCE, behind=False)
        await self.measure(f"a page, one friend one play behind, {AT_ONCE} viewers at once", AT_ONCE, behind=True)

    async def measure(self, name: str, at_once: int, *, behind: bool) -> None:
        best = float("inf")
        for _ in range(RUNS):
            viewers = self.random.sample(VIEWERS, at_once)
            if behind:
                await self.read_all()
                await self.graph.record_play(STAR, self.unplayed.pop())
                await self.publish()
            begun = time.perf_counter()
            await asyncio.gather(*(self.page(viewer) for viewer in viewers))
            best = min(best, (time.perf_counter() - begun) / at_once)
        print(f"{name:65} {best * 1e6:8.0f} us")

    async def read_all(self) -> Sequence[object]:
        """Every view catches up."""
        return await asyncio.gather(*(self.page(viewer) for viewer in VIEWERS))

    async def page(self, viewer: int) -> None:
        await self.counts.page(viewer, self.random.sample(range(1, GAMES), 30))

    async def publish(self) -> None:
        asked = time.monotonic()
        self.lengths.take(await self.graph.pulled_logs(), asked)


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hc-bench-") as folder:
        server = EmbeddedRedis(Path(folder))
        await server.start()
        redis = SharedRedis(connect(server.url, client_name="bench", timeout_seconds=30))
        graph = SQLiteGraph(Path(folder) / "truth.sqlite3", fanout_max_friends=60)
        await graph.open()
        try:
            await Bench(graph, redis).run()
        finally:
            await graph.close()
            await redis.close()
            await server.stop()


if __name__ == "__main__":
    asyncio.run(main())
