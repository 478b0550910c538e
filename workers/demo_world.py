"""The demo world: invented users and games, small-world friendships, plays by taste. The same everywhere.

Only `random.Random(seed).random()` and arithmetic that IEEE 754 fixes to the last bit are used (no `choice` or
`shuffle`, whose streams are Python's own affair; no logarithms or powers, which are the platform's; no `sum` of floats,
which adds up differently since Python 3.12).
"""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate
from math import sqrt
from typing import NamedTuple

from graph.social_graph import FriendshipRow, GameRow, GraphError, PlayRow, SocialGraph, UserRow
from workers.demo_names import TITLE_PARTS, first_names, game_titles, shuffled

SEED = 20_261_130
USERS = 2000
GAMES = 300
KINDS = len(TITLE_PARTS)
GAMES_A_KIND = GAMES // KINDS

#: Who the tour looks through: somebody with enough friends for a page to say something.
VIEWER_ID = 1
VIEWER_SOCIABILITY = 28.0

#: Neighbourhoods around the ring on which users live; most of one like the same kind of game.
NEIGHBOURHOODS = 2 * KINDS
MAX_SOCIABILITY = 120.0
FRIENDS_ASKED = 3.8  # by a user of sociability 1
MAX_PLAYS = 150

FIRST_PLAY_MS = 1_735_689_600_000  # 2025-01-01T00:00:00Z
LAST_PLAY_MS = 1_793_491_200_000  # 2026-11-01T00:00:00Z

_BATCH_ROWS = 5000


class DemoWorld(NamedTuple):
    """The rows, in the order in which they are written."""

    games: list[GameRow]
    users: list[UserRow]
    friends: list[FriendshipRow]
    plays: list[PlayRow]


class DemoRefusedError(GraphError):
    """The truth holds something else than the demo world; the text is one line."""


def demo_rows() -> DemoWorld:
    """The demo world: games 1..300, users 1..2000, their friendships, and their plays in the order of time."""
    return _Inventor().invent()


def demo_games() -> list[GameRow]:
    """The games alone, which cost a hundredth of the whole."""
    return _Inventor().games()


class _Weighted:
    """Things to pick from, each with a weight."""

    def __init__(self, items: list[int], weights: list[float]) -> None:
        self._items = items
        self._cumulative = list(accumulate(weights))

    def pick(self, at: float) -> int:
        place = bisect_right(self._cumulative, at * self._cumulative[-1])
        return self._items[min(place, len(self._items) - 1)]


class _Inventor:
    def __init__(self) -> None:
        self.random = random.Random(SEED).random

    def invent(self) -> DemoWorld:
        games = self.games()
        users = [UserRow(place + 1, name) for place, name in enumerate(first_names(USERS, self.random))]
        self._settle()
        friends = self._friendships()
        return DemoWorld(games, users, friends, self._plays())

    def games(self) -> list[GameRow]:
        titles = [(kind, title) for kind in range(KINDS) for title in game_titles(kind, GAMES_A_KIND, self.random)]
        titles = shuffled(titles, self.random)
        # Popularity falls with the rank (Zipf), within a kind and over all.
        by_kind: list[list[int]] = [[] for _ in range(KINDS)]
        for place, (kind, _) in enumerate(titles):
            by_kind[kind].append(place + 1)
        self.games_of_kind = [
            _Weighted(shuffled(ids, self.random), [1.0 / (rank + 2) for rank in range(len(ids))]) for ids in by_kind
        ]
        everything = shuffled(range(1, GAMES + 1), self.random)
        self.any_game = _Weighted(everything, [1.0 / (rank + 1) for rank in range(GAMES)])
        return [GameRow(place + 1, title) for place, (_, title) in enumerate(titles)]

    def _below(self, limit: int) -> int:
        return int(self.random() * limit)

    def _settle(self) -> None:
        """Give each user a place on the ring, a taste, and a sociability (Pareto with exponent 4/3: a heavy tail)."""
        self.ring = shuffled(range(1, USERS + 1), self.random)
        self.place = [0] * (USERS + 1)
        self.taste = [0] * (USERS + 1)
        self.second_taste = [0] * (USERS + 1)
        self.sociability = [0.0] * (USERS + 1)
        likes = [neighbourhood % KINDS for neighbourhood in shuffled(range(NEIGHBOURHOODS), self.random)]
        for place, user_id in enumerate(self.ring):
            self.place[user_id] = place
            local = likes[place * NEIGHBOURHOODS // USERS]
            self.taste[user_id] = local if self.random() < 0.75 else self._below(KINDS)
            self.second_taste[user_id] = self._below(KINDS)
            half = sqrt(1.0 - self.random())
            self.sociability[user_id] = min(1.0 / (half * sqrt(half)), MAX_SOCIABILITY)
        self.sociability[VIEWER_ID] = VIEWER_SOCIABILITY

    def _friendships(self) -> list[FriendshipRow]:
        everybody = list(range(1, USERS + 1))
        anybody = _Weighted(everybody, self.sociability[1:])
        alike: list[_Weighted] = []
        for kind in range(KINDS):
            members = [user_id for user_id in everybody if self.taste[user_id] == kind]
            alike.append(_Weighted(members, [self.sociability[user_id] for user_id in members]))
        self.friends: list[list[int]] = [[] for _ in range(USERS + 1)]
        edges: set[tuple[int, int]] = set()
        for user_id in shuffled(everybody, self.random):
            for _ in range(int(FRIENDS_ASKED * self.sociability[user_id] + self.random())):
                other = self._acquaintance(user_id, alike[self.taste[user_id]], anybody)
                edge = (min(user_id, other), max(user_id, other))
                if user_id != other and edge not in edges:
                    edges.add(edge)
                    self.friends[user_id].append(other)
                    self.friends[other].append(user_id)
        return [FriendshipRow(*edge) for edge in sorted(edges)]

    def _acquaintance(self, user_id: int, alike: _Weighted, anybody: _Weighted) -> int:
        how = self.random()
        if how < 0.40:  # somebody near on the ring; how near falls off like 1/distance
            distance = int(min(8.0 / (1.0 - self.random()), USERS / 2))
            return self.ring[(self.place[user_id] + (distance if self.random() < 0.5 else -distance)) % USERS]
        if how < 0.65 and self.friends[user_id]:  # a friend's friend
            friend = self.friends[user_id][self._below(len(self.friends[user_id]))]
            return self.friends[friend][self._below(len(self.friends[friend]))]
        return (alike if how < 0.85 else anybody).pick(self.random())

    def _plays(self) -> list[PlayRow]:
        moments: list[tuple[float, int]] = []
        for user_id in range(1, USERS + 1):
            count = int(min(1.0 + 12.0 * self.random() + 8.0 / sqrt(1.0 - self.random()), MAX_PLAYS))
            moments.extend(((nth + self.random()) / count, user_id) for nth in range(count))
        moments.sort()
        logs: list[list[int]] = [[] for _ in range(USERS + 1)]
        span_ms = LAST_PLAY_MS - FIRST_PLAY_MS
        rows: list[PlayRow] = []
        for moment, user_id in moments:
            game_id = self._next_game(user_id, logs)
            if game_id not in logs[user_id]:
                logs[user_id].append(game_id)
                rows.append(PlayRow(user_id, game_id, FIRST_PLAY_MS + int(moment * span_ms)))
        return rows

    def _next_game(self, user_id: int, logs: list[list[int]]) -> int:
        for _ in range(4):  # another try where the user has that one already
            how = self.random()
            friends = self.friends[user_id]
            friend_log = logs[friends[self._below(len(friends))]] if friends else []
            if how < 0.30 and friend_log:  # what a friend plays
                game_id = friend_log[self._below(len(friend_log))]
            elif how < 0.70:
                game_id = self.games_of_kind[self.taste[user_id]].pick(self.random())
            elif how < 0.82:
                game_id = self.games_of_kind[self.second_taste[user_id]].pick(self.random())
            else:
                game_id = self.any_game.pick(self.random())
            if game_id not in logs[user_id]:
                break
        return game_id


async def fill_demo_world(graph: SocialGraph) -> bool:
    """Write the demo world into an empty truth; leave one that is there as its visitors made it.

    Its last game is written last, with its plays. A catalogue that holds that game besides the others is a whole demo
    world; one that has only the others is a start that was cut off, and is written again, which changes nothing that
    is there already.

    Args:
        graph: the truth, open.

    Returns:
        True where something was written.

    Raises:
        DemoRefusedError: the truth holds other games or users.
        TruthUnavailableError: the truth cannot be written.
    """
    names = {game.id: game.name for game in (await graph.catalogue()).changed}
    totals = await graph.totals()
    if names or totals.users:
        own = sum(names.get(game.id) == game.name for game in demo_games())
        # Games may have been added and some renamed by those who tried the mutations.
        if own < GAMES * 0.9 - 1 or own < len(names) * 0.5:
            raise DemoRefusedError(
                f"the truth holds {len(names):,} games and {totals.users:,} users that are not the demo world's; "
                "serve without --demo, or give it an empty folder (HEADCOUNT_DATA_DIR)"
            )
        if GAMES in names:
            return False
    world = demo_rows()
    # User by user, each in the order of time: a log is then written once and not once a batch.
    plays = sorted(world.plays, key=lambda play: play.user_id)
    last = [play for play in plays if play.game_id == GAMES]
    others = [play for play in plays if play.game_id != GAMES]
    await graph.import_rows("games", world.games[:-1])
    await graph.import_rows("users", world.users)
    for start in range(0, len(world.friends), _BATCH_ROWS):
        await graph.import_rows("friends", world.friends[start : start + _BATCH_ROWS])
    for start in range(0, len(others), _BATCH_ROWS):
        await graph.import_rows("plays", others[start : start + _BATCH_ROWS])
    await graph.import_rows("games", world.games[-1:])
    await graph.import_rows("plays", last)
    return True
