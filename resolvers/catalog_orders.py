"""The orders in which the catalogue is paged.

By live players the order moves every second, so the first page pins it: a cursor names the pinned order and a place in
it, and stays good for five minutes, in every web process (a copy is in Redis). By name a cursor holds the name itself.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import structlog
from redis.exceptions import RedisError

from graph.catalogue import CatalogueMemory
from graph.social_graph import Game
from signals.live_totals import LiveTotals
from signals.redis import SharedRedis

log = structlog.get_logger(__name__)

PINNED_SECONDS = 300
#: First pages within this long share one pinned order, which bounds how many are kept.
SHARED_SECONDS = 5.0
MAX_PINNED = int(PINNED_SECONDS / SHARED_SECONDS)


class PinnedOrder(NamedTuple):
    """Games by live players at one moment."""

    id: str
    pinned_at: float
    games: list[Game]


class CatalogOrders:
    """The catalogue in order, for pages."""

    def __init__(
        self,
        catalogue: CatalogueMemory,
        live_totals: LiveTotals,
        redis: SharedRedis,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalogue = catalogue
        self._live_totals = live_totals
        self._redis = redis
        self._clock = clock
        self._pinned: OrderedDict[str, PinnedOrder] = OrderedDict()
        self._writes: set[asyncio.Task[None]] = set()

    def by_live_players(self) -> PinnedOrder:
        """The order of this moment (at most five seconds old), pinned for five minutes."""
        now = self._clock()
        if self._pinned:
            latest = next(reversed(self._pinned.values()))
            if now - latest.pinned_at < SHARED_SECONDS and len(latest.games) == len(self._catalogue):
                return latest
        order = PinnedOrder(secrets.token_urlsafe(9), now, self._rank())
        self._keep(order)
        write = asyncio.get_running_loop().create_task(self._publish(order))
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
        return order

    async def pinned(self, order_id: str) -> PinnedOrder | None:
        """An order pinned by this process or another one, None where nobody has it any more."""
        order = self._pinned.get(order_id)
        if order is not None:
            return order
        try:
            packed = await self._redis.call("GET", _key(order_id))
        except (RedisError, OSError):
            return None
        if packed is None:
            return None
        numbers = np.frombuffer(packed, dtype="<u4").tolist()
        games = [game for number in numbers if (game := self._catalogue.numbered(number)) is not None]
        order = PinnedOrder(order_id, self._clock(), games)
        self._keep(order)
        return order

    def place_by_name(self, name: str, game_id: int) -> int:
        """How many games of the catalogue by name stand up to and including this casefolded name and id."""
        return bisect_right(self._catalogue.by_name, (name, game_id), key=lambda game: (game.name.casefold(), game.id))

    async def close(self) -> None:
        """Wait for the copies on their way to Redis."""
        await asyncio.gather(*self._writes)

    def _rank(self) -> list[Game]:
        ranked = [game for n in self._live_totals.ranked() if (game := self._catalogue.numbered(n)) is not None]
        seen = {game.id for game in ranked}
        idle = [
            game for id_ in self._catalogue.ids if id_ not in seen and (game := self._catalogue.game(id_)) is not None
        ]
        return ranked + idle

    def _keep(self, order: PinnedOrder) -> None:
        self._pinned[order.id] = order
        while len(self._pinned) > MAX_PINNED:
            self._pinned.popitem(last=False)

    async def _publish(self, order: PinnedOrder) -> None:
        packed = np.array([game.number for game in order.games], dtype="<u4").tobytes()
        try:
            await self._redis.call("SET", _key(order.id), packed, "EX", PINNED_SECONDS)
        except (RedisError, OSError) as error:
            log.warning("catalog_order_kept_in_process", reason=repr(error))


def _key(order_id: str) -> str:
    return f"co:{order_id}"
