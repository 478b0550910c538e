"""How fast the truth is, in SQLite and in Neo4j: plays recorded by many callers, imports, and cold pages.

    python -m bench.graph [--seconds 3] [--callers 64] [--folder F] [--truth sqlite|neo4j]

Every figure is of the whole path that a caller sees, durable when it is answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib.util
import random
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import neo4j

from graph.imports.importer import Importer
from graph.neo4j import Neo4jGraph
from graph.social_graph import GameRow, SocialGraph
from graph.sqlite import SQLiteGraph
from tests.neo4j.server import VERSION, CannotStartError, given_access, running, wipe

GAMES = 5_000
FRIENDS = 300
PLAYS = 100


class Targets(NamedTuple):
    """What the figures of a store are held against: plays and rows a second, milliseconds a page."""

    record_play: int
    import_plays: int
    import_friends: int
    cold_page_ms: int


SQLITE = Targets(10_000, 50_000, 50_000, 15)
NEO4J = Targets(3_000, 7_000, 15_000, 60)


class Silence:
    """Progress that nobody watches."""

    def begin(self, path: Path, size_bytes: int) -> None:
        """A file begins."""

    def advance(self, rows: int, position_bytes: int) -> None:
        """Rows are in."""

    def end(self) -> None:
        """The file is finished."""


def beside(figure: float, target: float, *, at_most: bool = False) -> str:
    """The target of a figure, and whether it is met."""
    met = figure <= target if at_most else figure >= target
    return f"[target {'<' if at_most else '>='} {target:,}: {'met' if met else 'NOT met'}]"


async def record_plays(graph: SocialGraph, users: int, callers: int, seconds: float, target: int | None) -> None:
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
    rate = len(waits) / seconds
    print(
        f"record_play, {callers} callers, {users:,} users: {rate:,.0f}/s {beside(rate, target) if target else ''}, "
        f"median {waits[len(waits) // 2] * 1e3:.1f} ms, 99 % {waits[len(waits) * 99 // 100] * 1e3:.1f} ms, "
        f"{cpu / len(waits) * 1e6:.0f} us of CPU each",
        flush=True,
    )


async def import_file(
    graph: SocialGraph, folder: Path, kind: Literal["friends", "plays"], title: str, rows: Sequence[object], target: int
) -> None:
    """Import a file as `headcount import` does, reading included."""
    path = folder / f"{kind}.tsv"
    with path.open("w") as file:
        file.write("user_id\tfriend_id\n" if kind == "friends" else "user_id\tgame_id\tplayed_at\n")
        file.writelines(map(("%d\t%d\n" if kind == "friends" else "%d\t%d\t%d\n").__mod__, rows))
    waited = (await graph.totals()).outbox
    begun, cpu = time.perf_counter(), time.process_time()
    await Importer(graph, {kind: path}, progress=Silence()).run()
    rate, cpu = len(rows) / (time.perf_counter() - begun), time.process_time() - cpu
    told = (await graph.totals()).outbox - waited
    print(
        f"import of {len(rows):,} {kind}, {title}: {rate:,.0f}/s {beside(rate, target)}, "
        f"{cpu / len(rows) * 1e6:.0f} us of CPU each, {told:,} rows more in the outbox",
        flush=True,
    )


async def cold_pages(graph: SocialGraph, viewers: Sequence[int], target_ms: int) -> None:
    """The logs of everybody a viewer sees, one viewer at a time."""
    times = []
    for viewer in viewers:
        begun = time.perf_counter()
        logs = await graph.seen_logs(viewer)
        times.append(time.perf_counter() - begun)
    entries = sum(len(seen.log) for seen in logs.values()) // 4
    times.sort()
    median_ms = times[len(times) // 2] * 1e3
    print(
        f"cold page, {len(logs)} friends, {entries:,} plays: median {median_ms:.1f} ms "
        f"{beside(median_ms, target_ms, at_most=True)}, longest {times[-1] * 1e3:.1f} ms",
        flush=True,
    )


async def measure(graph: SocialGraph, folder: Path, targets: Targets, size: int, callers: int, seconds: float) -> None:
    """Fill a truth and take the figures on the way. `size` is how many rows a file has."""
    choose = random.Random(1)
    await graph.open()
    await graph.save_games([GameRow(game_id, f"Game {game_id}") for game_id in range(1, GAMES + 1)])
    await graph.catalogue()  # as a server does at its start

    # Users 1.. have logs as a cold page is to find them; those of the other files come after them.
    users = size // PLAYS
    plays = [
        (user_id, game_id, 1_700_000_000 + index)
        for user_id in range(1, users + 1)
        for index, game_id in enumerate(choose.sample(range(1, GAMES + 1), PLAYS))
    ]
    await import_file(graph, folder, "plays", "by user", plays, targets.import_plays)
    viewers = range(users + 1, users + 1 + size // FRIENDS)
    friends = [(viewer, friend) for viewer in viewers for friend in choose.sample(range(1, users + 1), FRIENDS)]
    choose.shuffle(friends)
    await import_file(graph, folder, "friends", "shuffled", friends, targets.import_friends)
    await cold_pages(graph, viewers[:100], targets.cold_page_ms)
    choose.shuffle(plays)
    await import_file(graph, folder, "plays", "shuffled, all known", plays, targets.import_plays)
    fresh = range(100_001, 100_001 + size // 20)
    in_time = [(choose.choice(fresh), choose.randint(1, GAMES), 1_700_000_000 + second) for second in range(size)]
    await import_file(graph, folder, "plays", "new users, in the order of time", in_time, targets.import_plays)

    for population in (2_000, 20_000):
        await record_plays(graph, population, callers, seconds, targets.record_play)
    await record_plays(graph, users, 1, seconds, None)
    await graph.close()


def measure_neo4j(folder: Path, callers: int, seconds: float) -> None:
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
        asyncio.run(measure(graph, folder, NEO4J, 100_000, callers, seconds))


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--callers", type=int, default=64, help="how many record plays at once")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each throughput is measured")
    parser.add_argument("--folder", type=Path, help="where the truth is made; its disk is what is measured")
    parser.add_argument("--truth", choices=("sqlite", "neo4j", "both"), default="both", help="which one is measured")
    arguments = parser.parse_args()
    gc.set_threshold(50_000, 20, 100)  # as `headcount import` and the server have it
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        if arguments.truth in ("sqlite", "both"):
            print(f"SQLite {sqlite3.sqlite_version}, {folder}")
            graph = SQLiteGraph(folder / "bench.db")
            asyncio.run(measure(graph, folder, SQLITE, 400_000, arguments.callers, arguments.seconds))
        if arguments.truth in ("neo4j", "both"):
            measure_neo4j(folder, arguments.callers, arguments.seconds)


if __name__ == "__main__":
    main()
