"""Live sessions as they are written: heartbeats, moves and ends, gathered into one script call a shard.

A session lives as long as its last heartbeat is younger than the time to live, by Redis's clock. Nothing depends on
its end being announced.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from signals.redis import Argument, RoundTrips, SharedRedis, round_trips, script
from signals.shards import SHARDS, shard_of

BEAT = script("beat", prelude="live_shard live_counts")

#: What arrives within this time for a shard is one script call.
GATHER_SECONDS = 0.025
#: Items of one script call at most: a call of this many holds Redis for about a millisecond.
MAX_ITEMS = 400
BEATS_IN_A_TTL = 3  # two may be lost and the session still lives
JITTER = 0.1
ENDED = 0  # in the place of a game's number, which is 1 or more

Clock: TypeAlias = Callable[[], int]
_Item: TypeAlias = tuple[str, int, asyncio.Future[tuple[bool, int]], RoundTrips | None]


class Beat(NamedTuple):
    """What became of a heartbeat.

    `live` is False where the session was ended less than a time to live ago. `expires_at` is when it stops being live
    without another heartbeat, in Unix seconds by Redis's clock; None where it is not live.
    """

    live: bool
    expires_at: float | None


def next_heartbeat_in_seconds(ttl_seconds: float) -> float:
    """When a client should send its next heartbeat: a third of the time to live, spread so that no herd forms."""
    return ttl_seconds / BEATS_IN_A_TTL * random.uniform(1 - JITTER, 1 + JITTER)


def beat_interval_ms(ttl_seconds: float) -> int:
    """The longest time between two heartbeats of a client that does what it is told."""
    return round(ttl_seconds * 1000 / BEATS_IN_A_TTL * (1 + JITTER))


class LiveKeys(NamedTuple):
    """The keys of a shard of live sessions, in the order in which the scripts want them (`lua/live_shard.lua`)."""

    beats: bytes
    games: bytes
    users: bytes
    counts: bytes
    changed: bytes
    hidden: bytes
    new_players: bytes
    token: bytes


LIVE_KEYS: tuple[LiveKeys, ...] = tuple(
    LiveKeys(*(f"{name}:{{{shard}}}".encode() for name in ("lb", "lg", "lu", "lc", "ld", "lh", "ln", "lt")))
    for shard in range(SHARDS)
)


class LiveSessions:
    """Heartbeats and ends of many callers. A user's are done in the order in which they came to this process."""

    def __init__(
        self,
        redis: SharedRedis,
        ttl_seconds: float,
        *,
        gather_seconds: float = GATHER_SECONDS,
        clock_ms: Clock | None = None,
    ) -> None:
        """Prepare to write.

        Args:
            redis: where live sessions are kept.
            ttl_seconds: how long a session lives after a heartbeat.
            gather_seconds: time between two calls for a shard that has something to send; one that had none for as long
                sends at once.
            clock_ms: stands in for Redis's clock, in milliseconds; for tests.
        """
        self._redis = redis
        self._ttl_ms = round(ttl_seconds * 1000)
        self._gather_seconds = gather_seconds
        self._clock_ms = clock_ms
        self._waiting: list[list[_Item]] = [[] for _ in range(SHARDS)]
        self._ready: set[int] = set()  # shards that have something waiting and no call under way
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._flush: asyncio.Handle | None = None
        self._flushed_at = float("-inf")

    async def beat(self, user_id: int, session_id: str, number: int) -> Beat:
        """A session of a user is in the game with this number now. Sent again, it changes nothing.

        Raises:
            redis.exceptions.RedisError: it may or may not have been counted.
        """
        if number < 1:
            raise ValueError(f"{number} is not a game's number")
        live, now_ms = await self._put(user_id, session_id, number)
        return Beat(live, (now_ms + self._ttl_ms) / 1000 if live else None)

    async def end(self, user_id: int, session_id: str) -> bool:
        """A session of a user is over.

        Returns:
            Whether it was live; False for one that is unknown, dead or ended already.

        Raises:
            redis.exceptions.RedisError: it may or may not have been ended.
        """
        ended, _ = await self._put(user_id, session_id, ENDED)
        return ended

    async def close(self) -> None:
        """Send what waits, and wait for what is under way."""
        while self._ready or self._calls:
            self._send_ready()
            await asyncio.gather(*self._calls.values())

    def _put(self, user_id: int, session_id: str, number: int) -> asyncio.Future[tuple[bool, int]]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[bool, int]] = loop.create_future()
        shard = shard_of(user_id)
        self._waiting[shard].append((f"{user_id}:{session_id}", number, future, round_trips.get()))
        if shard not in self._calls:
            self._make_ready(shard)
        return future

    def _make_ready(self, shard: int) -> None:
        self._ready.add(shard)
        if self._flush is None:
            loop = asyncio.get_running_loop()
            due = self._flushed_at + self._gather_seconds
            self._flush = (
                loop.call_soon(self._send_ready) if due <= loop.time() else loop.call_at(due, self._send_ready)
            )

    def _send_ready(self) -> None:
        loop = asyncio.get_running_loop()
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        self._flushed_at = loop.time()
        ready, self._ready = self._ready, set()
        charged: set[int] = set()  # all these calls leave in one pipeline: one round trip for each request among them
        account = round_trips.set(None)
        try:
            for shard in ready:
                items = self._waiting[shard][:MAX_ITEMS]
                del self._waiting[shard][:MAX_ITEMS]
                for _, _, _, trips in items:
                    if trips is not None and id(trips) not in charged:
                        charged.add(id(trips))
                        trips.count += 1
                self._calls[shard] = loop.create_task(self._send(shard, items))
        finally:
            round_trips.reset(account)

    async def _send(self, shard: int, items: list[_Item]) -> None:
        args: list[Argument] = [self._clock_ms() if self._clock_ms else "", self._ttl_ms]
        for session, number, _, _ in items:
            args += (session, number)
        try:
            now_ms, answers = await self._redis.run(BEAT, [*LIVE_KEYS[shard][:7]], args)
        except BaseException as error:
            # What came meanwhile would only wait as long again, and the queue would grow without end.
            items, self._waiting[shard] = items + self._waiting[shard], []
            for _, _, future, _ in items:
                if not future.done():  # its caller may have gone away
                    future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            if not isinstance(error, Exception):
                raise
        else:
            for (_, _, future, _), answer in zip(items, answers, strict=True):
                if not future.done():
                    future.set_result((answer == ord("1"), now_ms))
        finally:
            del self._calls[shard]
            if self._waiting[shard]:
                self._make_ready(shard)
