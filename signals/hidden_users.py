"""Whom live counts leave out: the hidden and deleted users of each shard of live sessions, kept beside its sets.

A shard is not counted before it was told all of them. Whoever tells it brings the token that stood in it before they
read the truth (`workers.live_visibility` says why).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Mapping, Sequence

from signals.fence import Fence
from signals.live_sessions import LIVE_KEYS
from signals.redis import Argument, SharedRedis, script
from signals.shards import shard_of

LOADED = "loaded"
#: Of the keys of live sessions: shards of another form are emptied, as those of another truth are.
FORM = 2
#: Users of one script call at most: a call of this many holds Redis for about a millisecond.
USERS_A_CALL = 500


class HiddenUsers:
    """The hidden and deleted users as Redis holds them, 64 shards of them.

    Args:
        redis: where they are.
        fence: what users are told behind, where it is acknowledged that they were; None in tests of them alone.
    """

    def __init__(self, redis: SharedRedis, fence: Fence | None = None) -> None:
        self._redis = redis
        self._fence = fence
        self._claim = script("claim_hidden", prelude="live_shard live_counts")
        self._hide = script("hide", prelude="live_shard live_counts")

    async def claim(self, shards: Collection[int], truth_id: str) -> dict[int, str]:
        """Announce that the truth is about to be read for these shards.

        Returns:
            The tokens, by shard, of those that have to be loaded: not those that this truth's users were told already.
            What a shard holds of another truth is dropped, sessions included.

        Raises:
            redis.exceptions.RedisError: shards may have been claimed; claiming again is harmless.
        """
        nonce, of = secrets.token_hex(8), f"{truth_id}/{FORM}"
        calls = [self._redis.run(self._claim, [*LIVE_KEYS[shard]], [of, nonce]) for shard in shards]
        tokens = await asyncio.gather(*calls)
        return {shard: token.decode() for shard, token in zip(shards, tokens, strict=True) if token is not None}

    async def load(self, shard: int, token: str, versions: Mapping[int, int]) -> bool:
        """Tell a shard all of its hidden and deleted users; from then on it is counted.

        Args:
            shard: which.
            token: what `claim` gave, before the truth was read.
            versions: of each user's state, by user.

        Returns:
            False where another token stands by now, or none: then the shard was emptied, and is to be claimed again.

        Raises:
            redis.exceptions.RedisError: some of it may have been done; doing it again is harmless.
        """
        users = [(user_id, version, True) for user_id, version in versions.items()]
        for start in range(0, max(len(users), 1), USERS_A_CALL):
            end = start + USERS_A_CALL
            if not await self._tell(shard, token, users[start:end], last=end >= len(users)):
                return False
        return True

    async def token(self, user_id: int) -> str | None:
        """The token of a user's shard; None where nobody has begun to load it.

        Raises:
            redis.exceptions.RedisError: it could not be read.
        """
        shard = shard_of(user_id)
        key = LIVE_KEYS[shard].hidden
        if self._fence is None:
            held = await self._redis.call("HGET", key, LOADED)
        else:
            held = await self._fence.read(self._redis, shard, "HGET", key, LOADED)
        return None if held is None else held.decode()[2:]

    async def hide(self, user_id: int, token: str, version: int, *, hidden: bool) -> bool:
        """Leave a user out of all counts, or count them again, unless the shard holds this version or a newer one.

        Args:
            user_id: whose sessions.
            token: that of the shard, from before the user's state was read.
            version: of the user's state (`graph.visibility.version_of`).
            hidden: hidden or deleted.

        Returns:
            False where another token stands by now, or none: then nothing changed, and the state is to be read again.

        Raises:
            redis.exceptions.RedisError: it may or may not have been done; doing it again is harmless.
        """
        return await self._tell(shard_of(user_id), token, [(user_id, version, hidden)])

    async def forget(self, shards: Collection[int]) -> None:
        """Have these shards loaded anew before they are counted again; for when what they hold cannot be trusted.

        Raises:
            redis.exceptions.RedisError: some may have been forgotten; doing it again is harmless.
        """
        await asyncio.gather(*(self._redis.call("HDEL", LIVE_KEYS[shard].hidden, LOADED) for shard in shards))

    async def _tell(
        self, shard: int, token: str, users: Sequence[tuple[int, int, bool]], *, last: bool = False
    ) -> bool:
        args: list[Argument] = [token, int(last)]
        for user_id, version, hidden in users:
            args += (user_id, version * 2 + hidden)
        keys: list[Argument] = [*LIVE_KEYS[shard][:7]]
        if self._fence is None:
            return bool(await self._redis.run(self._hide, keys, args))
        return bool(await self._fence.run(self._redis, self._hide, shard, keys, args))
