"""How fast the truth is, in SQLite and in Neo4j: plays recorded by many callers, imports, and cold pages.

    python -m bench.graph [--seconds 3] [--callers 64] [--folder F] [--truth sqlite|neo4j]

Every figure is of the whole path that a caller sees, durable when it is answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import random
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import neo4j

from graph.neo4j import Neo4jGraph
from graph.social_graph import FriendshipRow, GameRow, PlayRow, SocialGraph
from graph.sqlite import SQLiteGraph
from tests.neo4j.server import VERSION, CannotStartError, given_access, running, wipe

IMPORT_BATCH = 5_000
GAMES = 5_000


async def record_plays(graph: SocialGraph, users: int, callers: int, seconds: float) -> None:
    """Closed loop: each caller records its next play when the last one is answered."""
    stop_at = time.perf_counter() + seconds
    waits: list[float] = []

    async def caller(seed: int) -> None:
        choose = random.Random(seed)
        while (begun := time.perf_counter()) < stop_at:
            await graph.record_play(choose.randint(1, users), choose.randint(1, GAMES))
            waits.append(time.perf_counter() - begun)

    cpu = time.process_time()
    await asyncio.gather(*(caller(seed) for seed in range(callers)))
    cpu = time.process_time() - cpu
    waits.sort()
    print(
        f"record_play, {callers} callers, {users:,} users: {len(waits) / seconds:,.0f}/s, "
        f"median {waits[len(waits) // 2] * 1e3:.1f} ms, 99 % {waits[len(waits) * 99 // 100] * 1e3:.1f} ms, "
        f"{cpu / len(waits) * 1e6:.0f} us of CPU each"
    )


async def import_plays(graph: SocialGraph, title: str, plays: Sequence[PlayRow]) -> None:
    """Import in batches; the longest one is how long others wait for the write lock."""
    begun = time.perf_counter()
    longest = 0.0
    for start in range(0, len(plays), IMPORT_BATCH):
        batch_begun = time.perf_counter()
        bad = await graph.import_rows("plays", plays[start : start + IMPORT_BATCH])
        longest = max(longest, time.perf_counter() - batch_begun)
        assert not bad  # noqa: S101  # a figure of rows that were refused would be none
    rate = len(plays) / (time.perf_counter() - begun)
    print(f"import of plays, {title}, batches of {IMPORT_BATCH:,}: {rate:,.0f} rows/s, longest {longest * 1e3:.0f} ms")


async def import_friends(graph: SocialGraph, friends: Sequence[FriendshipRow]) -> None:
    """Import in batches."""
    begun = time.perf_counter()
    for start in range(0, len(friends), IMPORT_BATCH):
        assert not await graph.import_rows("friends", friends[start : start + IMPORT_BATCH])  # noqa: S101  # as above
    rate = len(friends) / (time.perf_counter() - begun)
    print(f"import of friends, batches of {IMPORT_BATCH:,}: {rate:,.0f} rows/s")


async def cold_pages(graph: SocialGraph, viewers: Sequence[int], title: str) -> None:
    """The logs of everybody a viewer sees, one viewer at a time."""
    times = []
    for viewer in viewers:
        begun = time.perf_counter()
        logs = await graph.seen_logs(viewer)
        times.append(time.perf_counter() - begun)
    entries = sum(len(seen.log) for seen in logs.values()) // 4
    times.sort()
    print(
        f"cold page, {len(logs)} friends, {entries:,} plays, {title}: median {times[len(times) // 2] * 1e3:.1f} ms, "
        f"longest {times[-1] * 1e3:.1f} ms"
    )


async def measure(graph: SocialGraph, callers: int, seconds: float) -> None:
    """Fill a truth and take the figures on the way."""
    choose = random.Random(1)
    await graph.open()
    await graph.save_games([GameRow(game_id, f"Game {game_id}") for game_id in range(1, GAMES + 1)])

    users = 4_000
    plays = [
        PlayRow(user_id, game_id, 1_700_000_000_000 + index)
        for user_id in range(1, users + 1)
        for index, game_id in enumerate(choose.sample(range(1, GAMES + 1), 100))
    ]
    await import_plays(graph, "by user", plays)
    choose.shuffle(plays)
    await import_plays(graph, "shuffled, all known", plays[:100_000])
    shuffled = [PlayRow(choose.randint(1, users), choose.randint(1, GAMES)) for _ in range(100_000)]
    await import_plays(graph, "shuffled, most of them new", shuffled)

    viewers = range(1, 101)
    friends = [
        FriendshipRow(viewer, friend) for viewer in viewers for friend in choose.sample(range(101, users + 1), 300)
    ]
    choose.shuffle(friends)
    await import_friends(graph, friends)
    await cold_pages(graph, viewers, "alone")

    for population in (2_000, 20_000):
        await record_plays(graph, population, callers, seconds)
    await record_plays(graph, users, 1, seconds)
    await graph.close()


def measure_neo4j(callers: int, seconds: float) -> None:
    """The same on a Neo4j of its own (or that of HEADCOUNT_TEST_NEO4J_URI), with the driver as it is installed here."""
    packing = "neo4j-rust-ext" if importlib.util.find_spec("neo4j._rust") else "no neo4j-rust-ext"
    with contextlib.ExitStack() as closing:
        access = given_access()
        if access is None:
            try:
                access = closing.enter_context(running(heap_mb=768)).access
            except CannotStartError as error:
                print(f"Neo4j was not measured: {error}")
                return
        wipe(access)
        print(f"\nNeo4j {VERSION}, heap 768 MB, driver {neo4j.__version__}, {packing}")
        graph = Neo4jGraph(access.uri, user=access.user, password=access.password, database=access.database)
        asyncio.run(measure(graph, callers, seconds))


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--callers", type=int, default=64, help="how many record plays at once")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each throughput is measured")
    parser.add_argument("--folder", type=Path, help="where the truth is made; its disk is what is measured")
    parser.add_argument("--truth", choices=("sqlite", "neo4j", "both"), default="both", help="which one is measured")
    arguments = parser.parse_args()
    if arguments.truth in ("sqlite", "both"):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            print(f"SQLite {sqlite3.sqlite_version}, {folder}")
            asyncio.run(measure(SQLiteGraph(Path(folder) / "bench.db"), arguments.callers, arguments.seconds))
    if arguments.truth in ("neo4j", "both"):
        measure_neo4j(arguments.callers, arguments.seconds)


if __name__ == "__main__":
    main()
