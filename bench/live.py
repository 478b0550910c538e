"""What live sessions cost, each figure beside its target: heartbeats, memory, recounts, the players of a day.

    python -m bench.live [--sessions 1000000] [--games 60000] [--each 50]

Heartbeats are measured through the program's own write path; the sessions that are there before are written by the same
script in larger calls. Redis is started for this, with its append-only file on. Microseconds and milliseconds are of
processors, not of the clock, so other work on the machine makes them a little larger and not many times.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import structlog

from signals.embedded_redis import EmbeddedRedis
from signals.hidden_users import HiddenUsers
from signals.live_audit import LiveAudit
from signals.live_sessions import BEAT, LIVE_KEYS, MAX_ITEMS, LiveSessions
from signals.live_totals import LiveTotals
from signals.redis import Argument, SharedRedis, connect
from signals.shards import shard_of
from signals.unique_players import Note, UniquePlayers
from workers.lease import Lease
from workers.live_visibility import LiveVisibility
from workers.recount import LEASE_NAME, Recount

TTL_SECONDS = 600  # nobody dies while this runs
AT_ONCE = 20_000  # heartbeats in flight
BEATS = 200_000  # that are measured
IDLE_ROUNDS = 20
VIRAL = 7


class Spent(NamedTuple):
    """Seconds."""

    scripts: float  # in Redis's scripts, by the clock
    redis: float  # of Redis's processor
    own: float  # of this process's processor
    wall: float


class Meter:
    """What Redis and this process spend between two looks."""

    def __init__(self, redis: SharedRedis) -> None:
        self._redis = redis

    async def memory(self) -> int:
        """Bytes that the keys take."""
        info = await self._redis.client.info("memory")
        return int(info["used_memory_dataset"])

    async def measure(self, action: Callable[[], Awaitable[object]]) -> Spent:
        """Do something."""
        await self._redis.client.config_resetstat()
        server = await self._server_cpu()
        own, began = _own_cpu(), time.perf_counter()
        await action()
        wall, own = time.perf_counter() - began, _own_cpu() - own
        stats = await self._redis.client.info("commandstats")
        scripts = sum(stats.get(f"cmdstat_{name}", {"usec": 0})["usec"] for name in ("evalsha", "evalsha_ro"))
        return Spent(scripts / 1e6, await self._server_cpu() - server, own, wall)

    async def _server_cpu(self) -> float:
        cpu = await self._redis.client.info("cpu")
        return float(cpu["used_cpu_user_main_thread"]) + float(cpu["used_cpu_sys_main_thread"])


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def sessions_of(count: int) -> list[tuple[int, str]]:
    """Users with ids of ten digits, each with a session id of 22 characters, as a UUID in base64 has."""
    choose = random.Random(1)
    return [(10**9 + index, f"{choose.getrandbits(88):022x}") for index in range(count)]


async def beat(live: LiveSessions, sessions: list[tuple[int, str]], number: Callable[[int], int]) -> None:
    """A heartbeat of each session, as many at once as a busy process has."""
    for start in range(0, len(sessions), AT_ONCE):
        some = sessions[start : start + AT_ONCE]
        await asyncio.gather(*(live.beat(user, id_, number(start + i)) for i, (user, id_) in enumerate(some)))


async def fill(redis: SharedRedis, sessions: list[tuple[int, str]], number: Callable[[int], int]) -> None:
    """A first heartbeat of each session, in calls as large as they get."""
    by_shard: defaultdict[int, list[Argument]] = defaultdict(list)
    for index, (user, id_) in enumerate(sessions):
        by_shard[shard_of(user)] += (f"{user}:{id_}", number(index))

    async def one(shard: int, items: list[Argument]) -> None:
        for start in range(0, len(items), 2 * MAX_ITEMS):
            args = ["", TTL_SECONDS * 1000, *items[start : start + 2 * MAX_ITEMS]]
            await redis.run(BEAT, [*LIVE_KEYS[shard][:7]], args)

    await asyncio.gather(*(one(shard, items) for shard, items in by_shard.items()))


async def count_players_in(redis: SharedRedis) -> int:
    """All at once, as nobody does it who has a recount to publish each second. Returns how many."""
    notes: list[Note] = []
    for keys in LIVE_KEYS:
        notes += await redis.call("SMEMBERS", keys.new_players)
    await UniquePlayers(redis).count_in("bench", notes, int(time.time() * 1000))
    await asyncio.gather(*(redis.call("DEL", keys.new_players) for keys in LIVE_KEYS))
    return len(notes)


class NobodyHides:
    """A truth in which everybody is visible."""

    truth_id = "bench"

    async def user_state(self, _user_id: int) -> int:
        """Visible."""
        return 0

    async def invisible_users(self) -> dict[int, int]:
        """Nobody."""
        return {}


def nobody_hides(redis: SharedRedis) -> LiveVisibility:
    """Live visibility of that truth."""
    return LiveVisibility(NobodyHides(), HiddenUsers(redis))


class Stand:
    """A leader and a reader on one Redis, and what their rounds cost."""

    def __init__(self, redis: SharedRedis) -> None:
        self.redis = redis
        self.meter = Meter(redis)
        self.live = LiveSessions(redis, TTL_SECONDS)
        self.leader = Recount(redis, TTL_SECONDS, 1000, Lease(redis, LEASE_NAME, 600), nobody_hides(redis))
        self.totals = LiveTotals(redis, 1000, 60)

    async def filled(
        self, label: str, sessions: list[tuple[int, str]], number: Callable[[int], int], limit: float | None
    ) -> None:
        """Sessions that begin, the first recount of them, and the memory that they take."""
        base = await self.meter.memory()
        spent = await self.meter.measure(lambda: fill(self.redis, sessions, number))
        print(f"{label}: {spent.redis / len(sessions) * 1e6:.1f} us of Redis a first heartbeat")
        players = await self.meter.measure(lambda: count_players_in(self.redis))
        print(
            f"their players counted in at once: {players.redis / len(sessions) * 1e6:.1f} us of Redis a player, "
            f"{players.own / len(sessions) * 1e6:.1f} of the leader's processor"
        )
        await self.recount("recount, first: all that there is")
        told("bytes a session, all keys together", (await self.meter.memory() - base) / len(sessions), limit)

    async def beats(self, sessions: list[tuple[int, str]], number: Callable[[int], int]) -> None:
        """Heartbeats through the write path."""
        spent = await self.meter.measure(lambda: beat(self.live, sessions, number))
        script, server, own, _ = (seconds / len(sessions) * 1e6 for seconds in spent)
        told("us of Redis's processor a heartbeat, the program's own write path", server, 5, digits=2)
        print(
            f"    {1e6 / server:,.0f} heartbeats a second and core of Redis; {script:.2f} us in the script, "
            f"{own:.1f} us of this process's processor a heartbeat"
        )

    async def recount(self, label: str) -> None:
        """A recount and a refresh."""
        await self.leader.lead()
        counted = await self.meter.measure(self.leader.recount)
        read = await self.meter.measure(self.totals.refresh)
        told(f"{label}: ms in Redis's scripts", counted.scripts * 1e3, None, digits=2)
        print(
            f"    {counted.own * 1e3:.1f} ms of the leader's processor, {counted.wall * 1e3:.0f} by the clock; "
            f"a process then reads it: {read.scripts * 1e3:.2f} in Redis, {read.own * 1e3:.1f} of its own"
        )

    async def idle_recounts(self, limit: float | None) -> None:
        """Recounts in which little changed: what stopped one of them was not Redis, so the quickest counts."""
        spent = []
        for _ in range(IDLE_ROUNDS):
            await self.leader.lead()
            spent.append(await self.meter.measure(self.leader.recount))
            await self.totals.refresh()
        told(
            f"recount, nothing changed, the quickest of {IDLE_ROUNDS}: ms in Redis's scripts",
            min(one.scripts for one in spent) * 1e3,
            limit,
            digits=2,
        )
        print(f"    {sum(one.own for one in spent) / IDLE_ROUNDS * 1e3:.1f} ms of the leader's processor")


def told(label: str, figure: float, limit: float | None, *, digits: int = 0) -> None:
    """Print a figure, beside its target where it has one."""
    target = "" if limit is None else f" (target: at most {limit:g}{'' if figure <= limit else ', MISSED'})"
    print(f"{label}: {figure:,.{digits}f}{target}", flush=True)


async def one_game(redis: SharedRedis, count: int) -> None:
    """All sessions in one game."""
    stand, sessions = Stand(redis), sessions_of(count)
    await stand.filled(f"{count:,} sessions in one game", sessions, lambda _: VIRAL, 320)
    await stand.beats(sessions[: min(count, BEATS)], lambda _: VIRAL)
    await stand.idle_recounts(1)
    await beat(stand.live, sessions[:100], lambda index: VIRAL + 1 + index % 10)
    await stand.recount("recount, 100 sessions moved to 10 games")
    assert stand.totals.sessions(VIRAL) == count - min(100, count)  # noqa: S101  # a wrong count makes no figure
    audited = await stand.meter.measure(lambda: LiveAudit(redis).look(0))
    print(f"audit of a shard of {count // 64:,} sessions: {audited.redis * 1e3:.1f} ms of Redis", flush=True)


async def many_games(redis: SharedRedis, games: int, each: int) -> None:
    """As many sessions in each of many games."""
    stand, sessions = Stand(redis), sessions_of(games * each)
    await stand.filled(f"{games:,} games with {each} sessions each", sessions, lambda i: 1 + i % games, None)
    await stand.idle_recounts(None)
    for moved in (1000, 10_000):
        await beat(stand.live, sessions[:moved], lambda index, by=moved: 1 + (index + by) % games)  # type: ignore[misc]
        await stand.recount(f"recount, {moved:,} sessions moved")
    stand.leader = Recount(redis, TTL_SECONDS, 1000, Lease(redis, LEASE_NAME, 600), nobody_hides(redis))
    await redis.call("DEL", f"lease:{{{LEASE_NAME}}}")
    await stand.recount("recount, another leader takes over")
    await stand.recount("recount, its second")


async def main(sessions: int, games: int, each: int) -> None:
    """Measure and print."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="hc-bench-") as folder:
        server = EmbeddedRedis(Path(folder))
        await server.start()
        redis = SharedRedis(connect(server.url, client_name="bench-live", timeout_seconds=60))
        try:
            version = (await redis.client.info("server"))["redis_version"]
            print(f"Redis {version}, {(await redis.client.info('memory'))['mem_allocator']}", flush=True)
            await one_game(redis, sessions)
            await redis.client.flushall()
            await many_games(redis, games, each)
        finally:
            await redis.close()
            await server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1_000_000, help="sessions in one game")
    parser.add_argument("--games", type=int, default=60_000, help="games of the second part")
    parser.add_argument("--each", type=int, default=50, help="sessions in each of them")
    given = parser.parse_args()
    asyncio.run(main(given.sessions, given.games, given.each))
