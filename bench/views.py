"""What friend-played views cost: Redis CPU and client CPU of updates, pages, builds and long logs.

    python -m bench.views [redis://…]

Without an address a server of its own is started (`signals.embedded_redis`). CPU is the server's own account of its
main thread and the process time of this client; both are printed in microseconds a piece, the best of some runs. The
server must be idle otherwise, and is emptied.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy

from signals.embedded_redis import EmbeddedRedis
from signals.redis import SharedRedis, connect
from signals.views import FriendViews, Outcome, Update

RUNS = 5
OWNERS = [2**62 + place for place in range(100)]
GAMES = 16_000


class Bench:
    """Measures calls on one Redis."""

    def __init__(self, redis: SharedRedis) -> None:
        self.redis = redis
        self.views = FriendViews(redis)

    async def run(self) -> None:
        server = await self.redis.client.info("server")
        version = server.get("valkey_version", server["redis_version"])
        allocator = (await self.redis.client.info("memory"))["mem_allocator"]
        print(f"{server.get('server_name', 'redis')} {version}, {allocator}")
        await self.redis.call("FLUSHALL")
        random = Random(1)
        viewers = list(range(1, 201))
        for viewer in viewers:
            await self.build(viewer, OWNERS, dict.fromkeys(random.sample(range(1, GAMES), 5000), 1))
        await self.updates(viewers, random)
        await self.guard(random)
        await self.pages(viewers, random)
        await self.builds(random)
        await self.long_logs(random)

    async def updates(self, viewers: list[int], random: Random) -> None:
        ordinals: Counter[int] = Counter()
        entries = []
        for _ in range(RUNS + 1):
            run = []
            for owner in OWNERS:
                ordinals[owner] += 1
                number = random.randrange(1, GAMES)
                run += [Update(viewer, owner, ordinals[owner], number) for viewer in viewers]
            entries.append(run)

        async def apply(run: int) -> None:
            expect(await self.views.apply(entries[run]), Outcome.APPLIED)

        await self.measure("APPLY, resident, a view update", apply, len(entries[0]))

        async def apply_again(_: int) -> None:
            expect(await self.views.apply(entries[0]), Outcome.DUPLICATE)

        await self.measure("APPLY, duplicate, a view update", apply_again, len(entries[0]))

    async def guard(self, random: Random) -> None:
        updates = [Update(random.randrange(10**6, 10**9), OWNERS[0], 1, 5) for _ in range(20_000)]

        async def apply(_: int) -> None:
            expect(await self.views.apply(updates), Outcome.NOT_RESIDENT)

        await self.measure("APPLY, not resident, a view update", apply, len(updates))

    async def pages(self, viewers: list[int], random: Random) -> None:
        # One view again and again stays in the processor's cache; of many views hardly anything does.
        for games, some in ((30, viewers[:1]), (30, viewers), (100, viewers)):
            asked = [(random.choice(some), random.sample(range(1, GAMES), games)) for _ in range(1_024)]

            async def read(_: int, asked: list[tuple[int, list[int]]] = asked) -> None:
                for start in range(0, len(asked), 32):  # 32 requests in flight share a pipeline
                    await asyncio.gather(*[self.views.page(*page) for page in asked[start : start + 32]])

            await self.measure(f"PAGE of {games}, {len(some)} views, 32 in a pipeline, a page", read, len(asked))

    async def builds(self, random: Random) -> None:
        counts = dict.fromkeys(range(1, GAMES + 1), 3)
        some = dict.fromkeys(random.sample(range(1, GAMES), 5_000), 2)
        shapes = (("5,000 edges, 16,000 games", 5_000, counts), ("300 edges, 5,000 games", 300, some))
        for name, owners, games in shapes:
            edges = [2**62 + place for place in range(owners)]

            async def build(run: int, edges: list[int] = edges, games: dict[int, int] = games) -> None:
                await self.build(10**6 + run, edges, games)

            await self.measure(f"CLAIM and BUILD, {name}", build, 1)
            await self.views.evict([10**6 + run for run in range(RUNS + 1)])

    async def long_logs(self, random: Random) -> None:
        for length in (100, GAMES):
            log = numpy.array(random.sample(range(1, 2 * GAMES), length), "<u4").tobytes()
            for run in range(RUNS + 1):
                await self.build(2 * 10**6 + run, OWNERS, dict.fromkeys(random.sample(range(1, GAMES), 5000), 1))

            async def catch_up(run: int, log: bytes = log) -> None:
                expect([await self.views.catch_up(2 * 10**6 + run, OWNERS[0], log)], Outcome.APPLIED)

            async def off(run: int, log: bytes = log) -> None:
                viewer = 2 * 10**6 + run
                token = await self.views.token(viewer)
                expect([await self.views.edge(viewer, OWNERS[0], token, 2, 0, log)], Outcome.APPLIED)

            await self.measure(f"CATCHUP, log of {length:,}", catch_up, 1)
            await self.measure(f"EDGE off, log of {length:,}", off, 1)
            await self.views.evict([2 * 10**6 + run for run in range(RUNS + 1)])

    async def build(self, viewer: int, owners: list[int], counts: dict[int, int]) -> None:
        token = await self.views.claim(viewer, "bench")
        if token is None:
            raise SystemExit("the server is not idle: somebody else builds views")
        await self.views.build(viewer, token, "next", dict.fromkeys(owners, (1, 1, 0)), counts)

    async def measure(self, name: str, call: Callable[[int], Awaitable[Any]], pieces: int) -> None:
        await call(0)  # scripts loaded, formats cached
        best: list[tuple[float, float, float]] = []
        for run in range(1, RUNS + 1):
            server, client, clock = await self.server_seconds(), time.process_time(), time.perf_counter()
            await call(run)
            clock, client = time.perf_counter() - clock, time.process_time() - client
            best.append((await self.server_seconds() - server, client, clock))
        server, client, clock = (min(column) / pieces * 1e6 for column in zip(*best, strict=True))
        print(f"{name:45} Redis {server:9.2f} us   client {client:9.2f} us   wall {clock:9.2f} us")

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
