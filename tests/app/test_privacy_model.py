"""Hundreds of random plays, friendships, blocks, hidings and deletions through the API, against plain sets."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

import pytest

from tests.app.privacy import block, delete, hide, lists, unblock
from tests.app.world import World

USERS = list(range(101, 113))
GAMES = list(range(1, 9))
STEPS = 300
LAST_DELETION = 3


class Plain:
    """What everybody should see."""

    def __init__(self) -> None:
        self.games: defaultdict[int, set[int]] = defaultdict(set)
        self.friends: set[frozenset[int]] = set()
        self.blocks: set[tuple[int, int]] = set()
        self.hidden: set[int] = set()
        self.deleted: set[int] = set()

    def friends_of(self, user: int) -> list[int]:
        """The friends on a user's list."""
        return [
            other
            for other in USERS
            if frozenset((user, other)) in self.friends
            and not {(user, other), (other, user)} & self.blocks
            and other not in self.deleted
        ]

    def counts(self, user: int) -> list[int | None]:
        """A user's friend counts of all games."""
        owners = [friend for friend in self.friends_of(user) if friend not in self.hidden]
        return [sum(game in self.games[owner] for owner in owners) for game in GAMES]

    def blocked_by(self, user: int) -> list[int]:
        """The users on a user's list of blocks."""
        return [other for other in USERS if (user, other) in self.blocks and other not in self.deleted]


class Clients:
    """Changes the program and the plain sets alike."""

    def __init__(self, headcount: World, seed: int) -> None:
        self.headcount = headcount
        self.random = random.Random(seed)
        self.plain = Plain()

    @property
    def users(self) -> list[int]:
        """Who is still there."""
        return [user for user in USERS if user not in self.plain.deleted]

    async def step(self) -> None:
        """One change, or a page on which views are built."""
        headcount, plain = self.headcount, self.plain
        user, other = self.random.sample(self.users, 2)
        pair, on = frozenset((user, other)), self.random.random() < 0.6
        match self.random.choices(
            ("play", "friend", "block", "hide", "read", "delete"), weights=(30, 25, 18, 10, 20, 0.7)
        )[0]:
            case "play":
                game = self.random.choice(GAMES)
                assert await headcount.play(user, game) == (game not in plain.games[user])
                plain.games[user].add(game)
            case "friend":
                await (headcount.befriend if on else headcount.part)(user, other)
                (plain.friends.add if on else plain.friends.discard)(pair)
            case "block":
                await (block if on else unblock)(headcount, user, other)
                (plain.blocks.add if on else plain.blocks.discard)((user, other))
            case "hide":
                await hide(headcount, user, on)
                (plain.hidden.add if on else plain.hidden.discard)(user)
            case "delete" if len(plain.deleted) < LAST_DELETION:
                assert await delete(headcount, user)
                plain.deleted.add(user)
            case _:
                await headcount.friends_played(user, GAMES)  # of some moment: events are under way

    async def compare(self) -> None:
        """Everybody's counts and lists, once all has been told."""
        await self.headcount.drained()
        for user in self.users:
            seen = await self.headcount.friends_played(user, GAMES)
            assert seen == self.plain.counts(user), user
            assert await lists(self.headcount, user) == {
                "friends": self.plain.friends_of(user),
                "blocked": self.plain.blocked_by(user),
                "activityHidden": user in self.plain.hidden,
            }


@pytest.mark.parametrize("seed", range(2))
async def test_counts_and_lists_equal_plain_sets_after_every_few_of_hundreds_of_changes(
    headcount: World, seed: int
) -> None:
    await headcount.games(len(GAMES))
    clients = Clients(headcount, seed)
    for user in USERS:
        await headcount.play(user, GAMES[0])
        clients.plain.games[user].add(GAMES[0])
    for step in range(1, STEPS + 1):
        await clients.step()
        if clients.random.random() < 0.03:
            await headcount.application.views.evict([clients.random.choice(USERS)])
        if step % 30 == 0:
            await clients.compare()
    residents = await asyncio.gather(*(headcount.application.views.token(user) for user in USERS))
    assert sum(token is not None for token in residents) > 5
    # And cold: the truth alone says the same.
    await headcount.application.views.evict(USERS)
    await clients.compare()
