"""A Redis client whose network fails as a schedule wants."""

from __future__ import annotations

import random
from collections.abc import Mapping

from redis.exceptions import ConnectionError as RedisConnectionError

from signals.redis import Argument, Reply, Script, SharedRedis
from tests.signals.over_redis import OverRedis


class FaultyRedis(OverRedis):
    """Runs scripts over another client; may run one twice, lose its reply, or never send it."""

    def __init__(
        self, redis: SharedRedis, rng: random.Random, fault_rate: float, mutants: Mapping[str, Script] | None = None
    ) -> None:
        super().__init__(redis)
        self._mutants = mutants or {}  # run instead of the scripts of their names
        self._rng = rng
        self.fault_rate = fault_rate

    async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
        """Run a script, badly."""
        script = self._mutants.get(script.name, script)
        # A look at all shards, or at all games, is many calls, of which sometimes one should fail, not always some.
        many = script.name in ("recount", "take_players", "count_players")
        rate = self.fault_rate / 4 if many else self.fault_rate
        if self._rng.random() >= rate:
            return await super().run(script, keys, args)
        match self._rng.choice(("repeated", "repeated", "reply lost", "not sent")):
            case "repeated":  # what redis-py does when the first reply is lost
                await super().run(script, keys, args)
                return await super().run(script, keys, args)
            case "reply lost":
                await super().run(script, keys, args)
                raise RedisConnectionError("reply lost")
            case _:
                raise RedisConnectionError("not sent")
