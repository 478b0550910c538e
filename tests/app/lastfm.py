"""The Last.fm people as plain sets, to compare with."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path


class LastFM:
    """Friends and plays, kept by the simplest means there are."""

    def __init__(self, folder: Path | None = None) -> None:
        self.friends: defaultdict[int, set[int]] = defaultdict(set)
        self.games_of: defaultdict[int, set[int]] = defaultdict(set)
        if folder is None:
            return  # nobody yet
        with (folder / "friends.tsv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                self.befriend(int(row["user_id"]), int(row["friend_id"]))
        with (folder / "plays.tsv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                self.play(int(row["user_id"]), int(row["game_id"]))

    def befriend(self, user: int, friend: int) -> None:
        """Make two users friends."""
        self.friends[user].add(friend)
        self.friends[friend].add(user)

    def part(self, user: int, friend: int) -> None:
        """Part two users."""
        self.friends[user].discard(friend)
        self.friends[friend].discard(user)

    def play(self, user: int, game: int) -> None:
        """Record a play."""
        self.games_of[user].add(game)

    def friends_played(self, user: int, game: int) -> int:
        """How many of the user's friends played a game."""
        return sum(game in self.games_of[friend] for friend in self.friends[user])
