"""The people of a storm as plain sets: friends, plays, blocks, and who hides."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from tests.app.lastfm import LastFM


class StormPeople:
    """What the truth must hold and every viewer see, kept by the simplest means there are."""

    def __init__(self, folder: Path) -> None:
        self.lastfm = LastFM(folder)
        self.users = sorted(set(self.lastfm.friends) | set(self.lastfm.games_of))
        self.blocks: set[tuple[int, int]] = set()
        self.hidden: set[int] = set()
        #: How many a user was ever friends with: no count is higher, however old.
        self.ever: defaultdict[int, set[int]] = defaultdict(set)
        for user, friends in self.lastfm.friends.items():
            self.ever[user] |= friends

    @property
    def friends(self) -> defaultdict[int, set[int]]:
        """Friends of each, the blocked and the hidden too."""
        return self.lastfm.friends

    @property
    def games_of(self) -> defaultdict[int, set[int]]:
        """Games of each."""
        return self.lastfm.games_of

    def befriend(self, user: int, friend: int) -> None:
        """Make two users friends."""
        self.lastfm.befriend(user, friend)
        self.ever[user].add(friend)
        self.ever[friend].add(user)

    def seen_by(self, viewer: int) -> set[int]:
        """Whose plays a viewer sees."""
        return {
            friend
            for friend in self.friends[viewer] - self.hidden
            if (viewer, friend) not in self.blocks and (friend, viewer) not in self.blocks
        }

    def counts(self, viewer: int) -> Counter[int]:
        """How many of whom a viewer sees played each game."""
        return Counter(game for friend in self.seen_by(viewer) for game in self.games_of[friend])

    def hot_games(self, count: int) -> list[int]:
        """The games with most players: changes meet there."""
        players = Counter(game for games in self.games_of.values() for game in games)
        return sorted(players, key=lambda game: (-players[game], game))[:count]
