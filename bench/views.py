"""What friend-played views cost: Redis CPU and client CPU of updates, pages, builds and long logs.

    python -m bench.views [redis://…]

Without an address a server of its own is started (`signals.embedded_redis`). CPU is the server's own account of its
main thread and the process time of this client; both are printed in microseconds a piece, the best of some runs, beside
what is aimed at on Debian's build. The server must be idle otherwise, and is emptied.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy

from bench.view_calls import CALLS, page_keys
from signals.embedded_redis import EmbeddedRedis
from signals.redis import SharedRedis, connect
from signals.views import ENTRIES_A_CALL, FriendViews, Outcome, Update

RUNS = 5
OWNERS = [2**62 + place for place in range(100)]
GAMES = 16_000
VIEWERS = range(1, 201)
#: So many that a call of APPLY carries fifty updates, one a view; what it touches is not in the processor's cache.
MANY_VIEWERS = range(10_001, 13_201)


class Bench:
    """Measures calls on one Redis."""

    def __init__(self, redis: SharedRedis) -> None:
        self.redis = redis
        self.views = FriendViews(redis)
        self.random = Random(1)
        self.games_of: dict[int, list[int]] = {}
        self.ordinal = 0  # of the last single update, of every owner

    async def run(self) -> None:
        server = await self.redis.client.info("server")
        version = server.get("valkey_version", server["redis_version"])
        memory = await self.redis.client.info("memory")
        print(f"{server.get('server_name', 'redis')} {version}, {memory['mem_allocator']}")
        await self.redis.call("FLUSHALL")
        await self.views_of(VIEWERS, 5_000)
        await self.bytes_a_pair()
        await self.pages()
        await self.page_in_parts()
        await self.updates()
        await self.guard()
        await self.builds()
        await self.long_logs()
        await self.views.evict(VIEWERS)
        await self.views_of(MANY_VIEWERS, 1_000)
        await self.single_updates("append-only file")
        if (await self.redis.client.config_get("appendonly"))["appendonly"] == "yes":
            await self.redis.client.config_set("appendonly", "no")
            await self.single_updates("no such file")

    async def views_of(self, viewers: Sequence[int], games: int) -> None:
        for viewer in viewers:
            self.games_of[viewer] = self.random.sample(range(1, GAMES), games)
            await self.build(viewer, OWNERS, dict.fromkeys(self.games_of[viewer], 1))

    async def bytes_a_pair(self) -> None:
        used = pairs = 0
        for key in page_keys(VIEWERS[0], range(64))[3:]:
            used += await self.redis.call("MEMORY", "USAGE", key)
            pairs += await self.redis.call("HLEN", key)
        print(f"{pairs:,} pairs in 64 buckets, {used / pairs:.1f} bytes a pair, keys included")

    async def updates(self) -> None:
        ordinals: Counter[int] = Counter()
        entries = []
        for _ in range(RUNS + 1):
            run = []
            for owner in OWNERS:
                ordinals[owner] += 1
                number = self.random.randrange(1, GAMES)
                run += [Update(viewer, owner, ordinals[owner], number) for viewer in VIEWERS]
            entries.append(run)

        async def apply(run: int) -> None:
            expect(await self.views.apply(entries[run]), Outcome.APPLIED)

        await self.measure("APPLY, 100 updates a view, 200 a call, an update", apply, len(entries[0]), target=10)

        async def apply_again(_: int) -> None:
            expect(await self.views.apply(entries[0]), Outcome.DUPLICATE)

        await self.measure("APPLY, duplicate, an update", apply_again, len(entries[0]))

    async def single_updates(self, how: str) -> None:
        async def apply(_: int) -> None:
            self.ordinal += 1
            numbers = [self.random.randrange(1, GAMES) for _ in OWNERS]
            places = [viewer % len(OWNERS) for viewer in MANY_VIEWERS]
            updates = [
                Update(viewer, OWNERS[place], self.ordinal, numbers[place])
                for viewer, place in zip(MANY_VIEWERS, places, strict=True)
            ]
            expect(await self.views.apply(updates), Outcome.APPLIED)

        await self.measure(f"APPLY, 1 update a view, 50 a call, {how}, an update", apply, len(MANY_VIEWERS), target=10)

    async def guard(self) -> None:
        updates = [Update(self.random.randrange(10**6, 10**9), OWNERS[0], 1, 5) for _ in range(20_000)]

        async def apply(_: int) -> None:
            expect(await self.views.apply(updates), Outcome.NOT_RESIDENT)

        await self.measure("APPLY, not resident, an update", apply, len(updates))

    async def pages(self) -> None:
        # One view again and again stays in the processor's cache; of many views hardly anything does. What no friend
        # played is looked for in a whole bucket.
        everything = range(1, GAMES)
        for games, viewers, played in (
            (30, VIEWERS[:1], True),
            (30, VIEWERS, True),
            (30, VIEWERS, False),
            (100, VIEWERS, False),
        ):
            asked = []
            for _ in range(1_024):
                viewer = self.random.choice(viewers)
                asked.append((viewer, self.random.sample(self.games_of[viewer] if played else everything, games)))

            async def read(_: int, asked: list[tuple[int, list[int]]] = asked) -> None:
                for start in range(0, len(asked), 32):  # 32 requests in flight share a pipeline
                    await asyncio.gather(*[self.views.page(*page) for page in asked[start : start + 32]])

            what = "played games" if played else "any games"
            target = 64 if games == 30 else None
            await self.measure(f"PAGE of {games} {what}, {len(viewers)} views, a page", read, len(asked), target=target)

    async def page_in_parts(self) -> None:
        """What a page of 30 is made of."""
        for name, source in CALLS.items():
            sha = await self.redis.call("SCRIPT", "LOAD", source)

            async def call(_: int, sha: str = sha) -> None:
                for start in range(0, 1_024, 32):
                    keys = page_keys(1 + start % len(VIEWERS), range(30))
                    fields = ",".join(["33"] * 30)
                    await asyncio.gather(
                        *[self.redis.call("EVALSHA_RO", sha, len(keys), *keys, fields) for _ in range(32)]
                    )

            await self.measure(f"  {name}", call, 1_024)

    async def builds(self) -> None:
        counts = dict.fromkeys(range(1, GAMES + 1), 3)
        some = dict.fromkeys(self.random.sample(range(1, GAMES), 5_000), 2)
        shapes = (
            ("300 edges, 16,000 games", 300, counts, 5_000),
            ("5,000 edges, 16,000 games", 5_000, counts, None),
            ("300 edges, 5,000 games", 300, some, None),
        )
        for name, owners, games, target in shapes:
            edges = [2**62 + place for place in range(owners)]

            async def build(run: int, edges: list[int] = edges, games: dict[int, int] = games) -> None:
                await self.build(10**6 + run, edges, games)

            await self.measure(f"CLAIM and BUILD, {name}", build, 1, target=target)
            await self.views.evict([10**6 + run for run in range(RUNS + 1)])

    async def long_logs(self) -> None:
        for length in (100, GAMES):
            log = numpy.array(self.random.sample(range(1, 2 * GAMES), length), "<u4").tobytes()
            for run in range(RUNS + 1):
                await self.build(2 * 10**6 + run, OWNERS, dict.fromkeys(self.games_of[VIEWERS[run]], 1))

            async def catch_up(run: int, log: bytes = log) -> None:
                expect([await self.views.catch_up(2 * 10**6 + run, OWNERS[0], log)], Outcome.APPLIED)

            async def off(run: int, log: bytes = log) -> None:
                viewer = 2 * 10**6 + run
                token = await self.views.token(viewer)
                expect([await self.views.edge(viewer, OWNERS[0], token, 2, 0, log)], Outcome.APPLIED)

            parts = -(-length // ENTRIES_A_CALL)
            target = 5_000 if parts > 1 else None
            await self.measure(f"CATCHUP, log of {length:,}, each of {parts} calls", catch_up, parts, target=target)
            await self.measure(f"EDGE off, log of {length:,}", off, 1, target=target)
            await self.views.evict([2 * 10**6 + run for run in range(RUNS + 1)])

    async def build(self, viewer: int, owners: list[int], counts: dict[int, int]) -> None:
        token = await self.views.claim(viewer, "bench")
        if token is None:
            raise SystemExit("the server is not idle: somebody else builds views")
        await self.views.build(viewer, token, "next", dict.fromkeys(owners, (1, 1, 0)), counts)

    async def measure(
        self, name: str, call: Callable[[int], Awaitable[Any]], pieces: int, *, target: float | None = None
    ) -> None:
        await call(0)  # scripts loaded, formats cached
        best: list[tuple[float, float, float]] = []
        for run in range(1, RUNS + 1):
            server, client, clock = await self.server_seconds(), time.process_time(), time.perf_counter()
            await call(run)
            clock, client = time.perf_counter() - clock, time.process_time() - client
            best.append((await self.server_seconds() - server, client, clock))
        server, client, clock = (min(column) / pieces * 1e6 for column in zip(*best, strict=True))
        wanted = f"   Redis aimed at {target:,} us" if target else ""
        print(f"{name:66} Redis {server:9.2f} us   client {client:9.2f} us   wall {clock:9.2f} us{wanted}", flush=True)

    async def server_seconds(self) -> float:
        cpu = await self.redis.client.info("cpu")
        return float(cpu["used_cpu_user_main_thread"]) + float(cpu["used_cpu_sys_main_thread"])


def expect(outcomes: list[Outcome], outcome: Outcome) -> None:
    """What is measured must be what its name says."""
    if set(outcomes) != {outcome}:
        raise SystemExit(f"expected {outcome!r}, had {set(outcomes)}")


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hc-bench-") as folder:
        server = None
        if len(sys.argv) > 1:
            url = sys.argv[1]
        else:
            server = EmbeddedRedis(Path(folder))
            await server.start()
            url = server.url
        redis = SharedRedis(connect(url, client_name="bench", timeout_seconds=30))
        try:
            await Bench(redis).run()
        finally:
            await redis.close()
            if server is not None:
                await server.stop()


if __name__ == "__main__":
    asyncio.run(main())
