"""The last catalogue, kept in Redis for a start without the truth: names and numbers of games, as of some version."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from signals.redis import SharedRedis, script

KEY = "cg:{catalogue}"
KEEP = script("keep_catalogue")


class GameEntry(NamedTuple):
    """A game: id, number, name, address of its image."""

    id: int
    number: int
    name: str
    image_url: str | None


class CatalogueEntries(NamedTuple):
    """A catalogue: of which truth, up to which of its versions, and every game."""

    truth_id: str
    version: int
    games: Sequence[GameEntry]


class CatalogueCopy:
    """The copy of the catalogue."""

    def __init__(self, redis: SharedRedis) -> None:
        self._redis = redis

    async def keep(self, truth_id: str, version: int, games: Iterable[GameEntry]) -> bool:
        """Keep this catalogue, unless one as new is kept already. Returns whether it was.

        Raises:
            redis.exceptions.RedisError: it may have been kept.
        """
        held_truth, held_version = await self._redis.call("HMGET", KEY, "truth", "version")
        if held_truth == truth_id.encode() and int(held_version) >= version:
            return False
        packed = await asyncio.to_thread(_pack, list(games))
        return bool(await self._redis.run(KEEP, [KEY], [truth_id, version, packed]))

    async def load(self) -> CatalogueEntries | None:
        """The copy, None where there is none.

        Raises:
            redis.exceptions.RedisError: it could not be read.
        """
        truth_id, version, packed = await self._redis.call("HMGET", KEY, "truth", "version", "games")
        if packed is None:
            return None
        return CatalogueEntries(truth_id.decode(), int(version), await asyncio.to_thread(_unpack, packed))


def _pack(games: list[GameEntry]) -> bytes:
    return zlib.compress(orjson.dumps([tuple(game) for game in games]), 1)


def _unpack(packed: bytes) -> list[GameEntry]:
    return [GameEntry(*game) for game in orjson.loads(zlib.decompress(packed))]
