"""The 64 shards of live sessions as one reader counts them: the dead dropped, then what changed since its last look."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from signals.live_sessions import LIVE_KEYS, Clock
from signals.redis import Argument, SharedRedis, script
from signals.shard_counts import Counts, ShardCounts, parse_counts
from signals.shards import SHARDS

RECOUNT = script("recount", prelude="live_shard recount_idle live_counts")

#: How many dead one call drops: 64 such calls in a pipeline hold Redis for about 20 ms.
DROP_LIMIT = 128
#: Whole shards that are read at once: of a large system each is some megabytes.
WHOLE_AT_ONCE = 8


class Answer(IntEnum):
    """What a shard answered, as `recount.lua` numbers it."""

    NOTHING_CHANGED = 0
    CHANGES = 1
    WHOLE = 2
    WHOLE_WITHOUT_TOKEN = 3
    NOT_LOADED = 4


_WHOLE = (Answer.WHOLE, Answer.WHOLE_WITHOUT_TOKEN)
_COUNTS = (Answer.CHANGES, *_WHOLE)


class Reading(NamedTuple):
    """One look at all shards.

    `as_of_ms` is the oldest moment that the counts are true of, by Redis's clock. `changed` are the numbers of the
    games whose totals may have changed. `new_shards` counts those that held no token of any reader, `lost_shards` those
    of them that this reader had read before: they were emptied. `not_loaded` are the shards that could not be read,
    because they do not know who is hidden (`signals.hidden_users`): without them, totals are not true of any moment.
    `with_new_players` are the shards that may have got notes of new players since they were last read
    (`signals.unique_players`).
    """

    as_of_ms: int
    changed: set[int]
    new_shards: int
    lost_shards: int
    not_loaded: frozenset[int]
    with_new_players: set[int]


class LiveShards:
    """One reader's table of the shards, and the tokens that say how far it has read each."""

    def __init__(
        self,
        redis: SharedRedis,
        ttl_seconds: float,
        *,
        shards: Collection[int] = range(SHARDS),
        clock_ms: Clock | None = None,
    ) -> None:
        """Prepare to read.

        Args:
            redis: where live sessions are kept.
            ttl_seconds: a session whose last heartbeat is this old is dead.
            shards: which to read; fewer only where a test knows that the others are empty.
            clock_ms: stands in for Redis's clock, in milliseconds; for tests.
        """
        self.counts = ShardCounts()
        self._redis = redis
        self.shards = list(shards)
        self._ttl_ms = round(ttl_seconds * 1000)
        self._clock_ms = clock_ms
        self._tokens = [""] * SHARDS
        self._reader = secrets.token_hex(8)
        self._answers = 0
        self._changed: set[int] = set()
        self._lost = 0
        self._whole_reads = asyncio.Semaphore(WHOLE_AT_ONCE)
        self._with_new_players: set[int] = set()

    async def read(self) -> Reading:
        """Drop the dead of every shard and take in what changed; all shards in one pipeline, again while there are more
        dead than one call drops.

        Raises:
            redis.exceptions.RedisError: a shard could not be read. What the others answered is kept for the next look.
        """
        moments: dict[int, int] = {}
        new: set[int] = set()
        not_loaded: set[int] = set()
        shards = self.shards
        while shards:
            replies = await asyncio.gather(*map(self._ask, shards), return_exceptions=True)
            errors = [reply for reply in replies if isinstance(reply, BaseException)]
            again = []
            for shard, reply in zip(shards, replies, strict=True):
                if isinstance(reply, BaseException):
                    continue
                now_ms, more, kind, counts, players, token = reply
                moments[shard] = now_ms
                if players:
                    self._with_new_players.add(shard)
                if kind == Answer.NOT_LOADED:
                    not_loaded.add(shard)
                if kind == Answer.WHOLE_WITHOUT_TOKEN:
                    new.add(shard)
                    self._lost += bool(self._tokens[shard])
                if kind in _COUNTS:
                    self._tokens[shard] = token
                    whole = kind != Answer.CHANGES
                    self._changed |= self.counts.fold(shard, counts, whole=whole)
                    if whole and len(counts):
                        await asyncio.sleep(0)  # a whole shard of a large system takes milliseconds
                if more:
                    again.append(shard)
            if errors:
                raise errors[0]
            shards = again
        changed, self._changed = self._changed, set()
        lost, self._lost = self._lost, 0
        with_new_players, self._with_new_players = self._with_new_players, set()
        return Reading(
            min(moments.values()),
            changed,
            len(new),
            lost,
            frozenset(not_loaded),
            with_new_players,
        )

    async def _ask(self, shard: int) -> tuple[int, int, int, Counts, int, str]:
        self._answers += 1
        token = f"{self._reader}:{self._answers}"
        args: list[Argument] = [
            self._clock_ms() if self._clock_ms else "",
            self._ttl_ms,
            DROP_LIMIT,
            self._tokens[shard],
            token,
        ]
        now_ms, more, kind, text, players = await self._redis.run(RECOUNT, [*LIVE_KEYS[shard]], args)
        if kind in _WHOLE:
            async with self._whole_reads:
                counts = await self._redis.call("HGETALL", LIVE_KEYS[shard].counts)
            text = b" ".join(chain.from_iterable(counts.items()))
        return now_ms, more, kind, parse_counts(text), players, token
