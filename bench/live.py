"""What live sessions cost: microseconds a heartbeat, bytes a session, milliseconds a recount.

    python -m bench.live [--sessions 1000000] [--games 20000] [--each 5]

Heartbeats go through the program's own write path to a Redis started for this, with its append-only file on.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from signals.embedded_redis import EmbeddedRedis
from signals.hidden_users import HiddenUsers
from signals.live_sessions import LiveSessions
from signals.live_totals import LiveTotals
from signals.redis import SharedRedis, connect
from workers.lease import Lease
from workers.live_visibility import LiveVisibility
from workers.recount import LEASE_NAME, Recount

TTL_SECONDS = 600  # nobody dies while this runs
AT_ONCE = 20_000  # heartbeats in flight
VIRAL = 7


class Meter:
    """What Redis and this process spend between two looks."""

    def __init__(self, redis: SharedRedis) -> None:
        self._redis = redis

    async def memory(self) -> int:
        """Bytes that Redis uses."""
        return int((await self._redis.client.info("memory"))["used_memory"])

    async def measure(self, action: Callable[[], Awaitable[object]]) -> tuple[float, float, float, float]:
        """Seconds of: scripts in Redis, Redis's processor in all, this process's processor, the clock."""
        await self._redis.client.config_resetstat()
        server = await self._server_cpu()
        own, began = _own_cpu(), time.perf_counter()
        await action()
        wall, own = time.perf_counter() - began, _own_cpu() - own
        stats = await self._redis.client.info("commandstats")
        scripts = sum(stats.get(f"cmdstat_{name}", {"usec": 0})["usec"] for name in ("evalsha", "evalsha_ro"))
        return scripts / 1e6, await self._server_cpu() - server, own, wall

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
        self.meter = Meter(redis)
        self.live = LiveSessions(redis, TTL_SECONDS)
        self.leader = Recount(redis, TTL_SECONDS, 1000, Lease(redis, LEASE_NAME, 600), nobody_hides(redis))
        self.totals = LiveTotals(redis, 1000, 60)

    async def beats(self, label: str, sessions: list[tuple[int, str]], number: Callable[[int], int]) -> None:
        """Heartbeats, measured."""
        spent = await self.meter.measure(lambda: beat(self.live, sessions, number))
        script, server, own, _ = (seconds / len(sessions) * 1e6 for seconds in spent)
        print(
            f"{label}: us a beat: {script:.2f} in the script, {server:.2f} of Redis in all "
            f"({1e6 / server:,.0f} a second and core), {own:.1f} of this process; {len(sessions) / spent[3]:,.0f}/s",
            flush=True,
        )

    async def recount(self, label: str) -> None:
        """A recount and a refresh, measured."""
        await self.leader.lead()
        counted = await self.meter.measure(self.leader.recount)
        read = await self.meter.measure(self.totals.refresh)
        print(
            f"{label}: ms: {counted[0] * 1e3:.2f} in Redis, {counted[2] * 1e3:.1f} of the leader, "
            f"{counted[3] * 1e3:.1f} by the clock; a process then reads it: {read[0] * 1e3:.2f} in Redis, "
            f"{read[2] * 1e3:.1f} of its own",
            flush=True,
        )


async def one_game(redis: SharedRedis, count: int) -> None:
    """All sessions in one game."""
    stand, sessions = Stand(redis), sessions_of(count)
    base = await stand.meter.memory()
    await stand.beats(f"{count:,} sessions in one game, first beats", sessions, lambda _: VIRAL)
    await stand.recount("recount, first")
    print(f"bytes a session: {(await stand.meter.memory() - base) / count:.0f}")
    await stand.beats("later beats", sessions[: count // 2], lambda _: VIRAL)
    await stand.recount("recount, nothing changed")
    await beat(stand.live, sessions[:1000], lambda index: VIRAL + 1 + index % 10)
    await stand.recount("recount, 1,000 sessions moved to 10 games")
    assert stand.totals.sessions(VIRAL) == count - min(1000, count)  # noqa: S101  # a wrong count makes no figure


async def many_games(redis: SharedRedis, games: int, each: int) -> None:
    """As many sessions in each of many games."""
    stand, sessions = Stand(redis), sessions_of(games * each)
    await stand.beats(f"{games:,} games with {each} sessions each, first beats", sessions, lambda i: 1 + i % games)
    await stand.recount("recount, first: every game")
    await stand.recount("recount, nothing changed")
    await beat(stand.live, sessions[:1000], lambda index: 1 + (index + 1) % games)
    await stand.recount("recount, 1,000 sessions moved")
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
    parser.add_argument("--games", type=int, default=20_000, help="games of the second part")
    parser.add_argument("--each", type=int, default=5, help="sessions in each of them")
    given = parser.parse_args()
    asyncio.run(main(given.sessions, given.games, given.each))
