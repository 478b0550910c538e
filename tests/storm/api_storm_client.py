"""A client of a storm. It owns users and pairs, so that the order of what happens to them is known to it alone."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx

from tests.app.privacy import BLOCK, HIDE, UNBLOCK
from tests.app.world import PAGE
from tests.storm.api_storm_people import StormPeople

PLAY = "mutation($g: ID!) { recordPlay(gameId: $g) { recorded first } }"
BEFRIEND = "mutation($u: ID!, $f: ID!) { addFriendship(userId: $u, friendId: $f) { friends version } }"
PART = "mutation($u: ID!, $f: ID!) { removeFriendship(userId: $u, friendId: $f) { friends version } }"

#: How long nobody may answer, with every store struck in turn on a machine that has much else to do.
PATIENCE_SECONDS = 600.0
LONGEST_THOUGHT_SECONDS = 0.05
PAGE_GAMES = 30

Sign = Callable[[int], str]


class Unanswered(Exception):  # noqa: N818  # an outcome that a storm is full of
    """Nobody knows what became of a request: no answer came, or one that says that a store is away."""


class StormClient:
    """One of many; asks one thing at a time. What was not answered it repeats until it is, and then goes on.

    Args:
        number: 0, 1, 2 …
        clients: how many there are.
        chance: its own random numbers.
        people: the plain sets, which it changes once it has an answer.
        http: to the web process.
        sign: gives a user's token.
    """

    def __init__(
        self,
        number: int,
        clients: int,
        chance: random.Random,
        people: StormPeople,
        http: httpx.AsyncClient,
        sign: Sign,
    ) -> None:
        self.answered: Counter[str] = Counter()
        self.unanswered = 0
        self._chance = chance
        self._people = people
        self._http = http
        self._sign = sign
        self._own = people.users[number::clients]
        self._owned = set(self._own)
        self._hot = people.hot_games(200)
        self._games = sorted({game for games in people.games_of.values() for game in games})
        self._versions: dict[tuple[int, int], int] = {}

    async def run(self, over: asyncio.Event) -> None:
        """Do something, think, do something, until it is over."""
        doings = (self._play, self._befriend_or_part, self._block_or_unblock, self._hide_or_show, self._browse)
        while not over.is_set():
            (do,) = self._chance.choices(doings, (40, 20, 12, 3, 25))
            await do()
            await asyncio.sleep(self._chance.random() * LONGEST_THOUGHT_SECONDS)

    async def read_page(self, user: int, games: list[int]) -> list[int]:
        """The friend counts of a page, asked for until all of them are known."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with suppress(Unanswered):
                    page = [count for count in await self._page(user, games) if count is not None]
                    if len(page) == len(games):
                        return page
                await asyncio.sleep(0.1)

    async def _play(self) -> None:
        user = self._chance.choice(self._own)
        game = self._chance.choice(self._hot if self._chance.random() < 0.8 else self._games)
        known = game in self._people.games_of[user]
        played, sure = await self._change(PLAY, {"g": str(game)}, user, "recordPlay")
        assert played["recorded"], (user, game)
        # Where an answer was lost, this one may be to a repetition.
        assert played["first"] is not known or (not sure and not played["first"]), (user, game, played, known)
        self._people.lastfm.play(user, game)
        self.answered["play"] += 1

    async def _befriend_or_part(self) -> None:
        pair = self._pair()
        user, friend = pair
        variables = {"u": str(user), "f": str(friend)}
        befriend = friend not in self._people.friends[user]
        name = "addFriendship" if befriend else "removeFriendship"
        changed, _ = await self._change(BEFRIEND if befriend else PART, variables, user, name)
        assert changed["friends"] is befriend, (pair, changed)
        assert changed["version"] > self._versions.get(pair, 0), (pair, changed, self._versions)
        self._versions[pair] = changed["version"]
        if befriend:
            self._people.befriend(user, friend)
        else:
            self._people.lastfm.part(user, friend)
        self.answered["befriend" if befriend else "part"] += 1

    async def _block_or_unblock(self) -> None:
        blocks = sorted(block for block in self._people.blocks if min(block) in self._owned)
        if blocks and self._chance.random() < 0.4:
            user, other = self._chance.choice(blocks)
        else:
            user, other = self._chance.sample(self._pair(), 2)
        block = (user, other) not in self._people.blocks
        query, name = (BLOCK, "block") if block else (UNBLOCK, "unblock")
        changed, _ = await self._change(query, {"u": str(other)}, user, name)
        assert changed["blocked"] is block, (user, other, changed)
        (self._people.blocks.add if block else self._people.blocks.discard)((user, other))
        self.answered[name] += 1

    async def _hide_or_show(self) -> None:
        hiding = sorted(self._people.hidden & self._owned)
        user = self._chance.choice(hiding if hiding and self._chance.random() < 0.4 else self._own)
        hide = user not in self._people.hidden
        changed, _ = await self._change(HIDE, {"h": hide}, user, "setActivityHidden")
        assert changed["activityHidden"] is hide, (user, changed)
        (self._people.hidden.add if hide else self._people.hidden.discard)(user)
        self.answered["hide" if hide else "show"] += 1

    async def _browse(self) -> None:
        """A page of anybody. Events are on their way, so counts may be old; they are never impossible."""
        user = self._chance.choice(self._people.users)
        games = self._chance.sample(self._hot, PAGE_GAMES)
        try:
            page = await self._page(user, games)
        except Unanswered:
            self.unanswered += 1
            return
        # Whom somebody else befriends just now may be counted before this client's sets have heard of it.
        most = len(self._people.ever[user]) + 20
        assert all(count is None or 0 <= count <= most for count in page), (user, page, most)
        self.answered["browse" if None not in page else "browse without counts"] += 1

    async def _page(self, user: int, games: list[int]) -> list[int | None]:
        body = await self._post(PAGE, {"ids": [str(game) for game in games]}, user)
        return [game["friendsPlayed"] for game in body["data"]["games"]]

    def _pair(self) -> tuple[int, int]:
        """A pair of which this client owns the lower: friends as often as others."""
        users = self._people.users
        user = self._chance.choice(self._own if self._own[-1] != users[-1] else self._own[:-1])
        friends = sorted(friend for friend in self._people.friends[user] if friend > user)
        if friends and self._chance.random() < 0.5:
            return user, self._chance.choice(friends)
        return user, users[self._chance.randrange(bisect_right(users, user), len(users))]

    async def _change(self, query: str, variables: Mapping[str, object], user: int, name: str) -> tuple[Any, bool]:
        """The payload of a mutation, and whether the first request was answered."""
        sure = True
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    body = await self._post(query, variables, user)
                    if body["data"] is None:
                        raise Unanswered
                    return body["data"][name], sure
                except Unanswered:
                    self.unanswered += 1
                    sure = False
                    await asyncio.sleep(0.05 + self._chance.random() * 0.2)

    async def _post(self, query: str, variables: Mapping[str, object], user: int) -> Any:
        """The body of an answer. Stores may be away, and nothing else may be wrong."""
        headers = {"Authorization": f"Bearer {self._sign(user)}"}
        try:
            response = await self._http.post("/graphql", json={"query": query, "variables": variables}, headers=headers)
        except httpx.TransportError as error:
            raise Unanswered from error
        body = response.json()
        codes = {error["extensions"]["code"] for error in body.get("errors", ())}
        if response.status_code == 503 and codes == {"UNAVAILABLE"}:
            raise Unanswered
        assert codes <= {"UNAVAILABLE"}, (user, query, variables, response.status_code, body)
        if body.get("data") is None or body["data"].get("games", ...) is None:
            raise Unanswered
        return body
