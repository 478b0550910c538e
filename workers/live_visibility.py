"""Carries who is hidden or deleted from the truth to the shards of live sessions.

Two ways lead there. `carry` brings a user whose state has just changed, from fan-out. `load` brings everybody, where
a shard does not know: on a first start, and after Redis lost it. The recount is refused by a shard that was not loaded,
so no hidden user's session is ever counted because Redis had forgotten that they hide.

Why no schedule of the two leaves a shard with anything but what the truth says, once what is under way is done:

- A shard holds for each user the version of the state that it was told, and takes only newer ones. So of two tellings
  of a user the later state stays, in whatever order they arrive; a load never undoes a newer hide, nor a hide a load.
- That memory is lost with Redis, and then an older state could come as news: a worker that read "hidden", slept while
  the user showed again and Redis was emptied, and wrote what it knew. So whoever tells a shard brings the token that
  stood there *before* they read the truth. It is set once, by the first who announces a load, and goes when the shard
  forgets: with the same token there, nothing was forgotten since the read, and versions decide; with another, or none,
  nothing is taken and the truth is read again.
- `load` announces itself, then reads the truth. A change committed before that read is in it. One committed after it
  has an event, and whoever handles that finds the token, or that of a later load, which reads the truth after it.
- `carry` finds no token: nobody has begun to load the shard, and whoever does will read a truth that holds the change.
  So there is nothing to do.
- A second leader, or one whose lease is over, loads with the same token as the first: both read the truth after it was
  set. Whoever is first makes the shard ready; the other one's states are older, or the same.
- Redis rewound to an earlier moment holds a token that stood then, and has forgotten what it was told since. That is
  what acknowledgements are for (`workers.markers`): what `carry` reads and tells runs behind a fence, so events that
  a shard has forgotten are handled again, and states come again. What was loaded needs none: with it goes that a shard
  is ready.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from typing import Protocol

import structlog

from graph.social_graph import TruthUnavailableError
from graph.visibility import UserFlag, version_of
from signals.hidden_users import HiddenUsers
from signals.shards import SHARDS, shard_of

log = structlog.get_logger(__name__)

_INVISIBLE = int(UserFlag.HIDDEN | UserFlag.DELETED)


class UserStates(Protocol):
    """What is read of the truth (`graph.social_graph.SocialGraph`)."""

    @property
    def truth_id(self) -> str:
        """Id of the truth, empty until it was open."""

    async def user_state(self, user_id: int) -> int:
        """The packed state of a user."""

    async def invisible_users(self) -> dict[int, int]:
        """Everybody who is hidden or deleted, and the version of their state."""


class LiveVisibility:
    """Tells the shards of live sessions whose sessions count."""

    def __init__(self, truth: UserStates, hidden: HiddenUsers) -> None:
        self._truth = truth
        self._hidden = hidden

    async def load(self, shards: Collection[int] = range(SHARDS)) -> None:
        """Load those of these shards that do not know this truth's hidden and deleted users; one query for all of them.

        A shard that is emptied meanwhile is left: it goes on refusing to be counted, and is loaded the next time.

        Raises:
            GraphError: the truth cannot be read.
            redis.exceptions.RedisError: some may be loaded; loading again is harmless.
        """
        truth_id = self._truth.truth_id
        if not truth_id:  # it never answered: what shards hold may be of it
            raise TruthUnavailableError("who is hidden cannot be read: the truth was not open yet")
        tokens = await self._hidden.claim(shards, truth_id)
        if not tokens:
            return
        versions: defaultdict[int, dict[int, int]] = defaultdict(dict)
        invisible = await self._truth.invisible_users()
        for user_id, version in invisible.items():
            versions[shard_of(user_id)][user_id] = version
        loads = [self._hidden.load(shard, token, versions[shard]) for shard, token in tokens.items()]
        done = await asyncio.gather(*loads)
        log.info("hidden_users_loaded", shards=sum(done), refused=len(done) - sum(done), users=len(invisible))

    async def carry(self, user_ids: Collection[int]) -> dict[int, int]:
        """Bring users whose state may have changed to their shards.

        Returns:
            Their states, packed, as they were read for it.

        Raises:
            Whatever the stores raise; some may have been brought, and all of them may be brought again.
        """
        states: dict[int, int] = {}
        users = list(user_ids)
        while users:  # around again only for those whose shard forgot between the two calls
            tokens = await asyncio.gather(*map(self._hidden.token, users))
            packed = await asyncio.gather(*map(self._truth.user_state, users))
            states.update(zip(users, packed, strict=True))
            told = [(user, token) for user, token in zip(users, tokens, strict=True) if token is not None]
            done = await asyncio.gather(
                *(
                    self._hidden.hide(user, token, version_of(states[user]), hidden=bool(states[user] & _INVISIBLE))
                    for user, token in told
                )
            )
            users = [user for (user, _), taken in zip(told, done, strict=True) if not taken]
        return states

    async def forget(self, user_ids: Collection[int]) -> None:
        """Have the shards of these users loaded anew: what they hold of them may be wrong."""
        await self._hidden.forget({shard_of(user_id) for user_id in user_ids})

    async def forget_all(self) -> None:
        """Have every shard loaded anew."""
        await self._hidden.forget(range(SHARDS))
