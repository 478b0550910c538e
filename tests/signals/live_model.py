"""What live sessions and the players of a day should be, in plain dictionaries and sets."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from tests.signals.live_stage import TTL_SECONDS

TTL_MS = TTL_SECONDS * 1000


@dataclass
class Session:
    """Where a session is, 0 once ended, and when it last beat or was ended."""

    number: int
    at_ms: int


@dataclass
class Players:
    """Who played what on which day, as (day, game, user).

    `certain` are players, `possible` may be as well: shards had not been told yet that the user hides or shows. Those
    of `new_…` were not counted in yet.
    """

    certain: set[tuple[int, int, int]] = field(default_factory=set)
    possible: set[tuple[int, int, int]] = field(default_factory=set)
    new_certain: set[tuple[int, int, int]] = field(default_factory=set)
    new_possible: set[tuple[int, int, int]] = field(default_factory=set)

    def beat(self, user: int, number: int, now_ms: int, *, hides: bool, told: bool) -> None:
        """A heartbeat was taken. `told`: shards know whether the user hides."""
        play = (now_ms // 86_400_000, number, user)
        if not (hides and told):
            self.new_possible.add(play)
        if told and not hides:
            self.new_certain.add(play)

    def changes(self, user: int) -> None:
        """A user hides or shows again: what was not counted in yet may be dropped, or not."""
        self.new_certain = {play for play in self.new_certain if play[2] != user}

    def count_in(self, hidden: Collection[int]) -> None:
        """The leader counts in who does not hide."""
        self.certain |= {play for play in self.new_certain if play[2] not in hidden}
        self.possible |= {play for play in self.new_possible if play[2] not in hidden}
        self.new_certain, self.new_possible = set(), set()

    def counts(self, now_ms: int) -> dict[int, tuple[int, int]]:
        """By game, the fewest and the most players that it can have today."""
        today = now_ms // 86_400_000
        certain = Counter(number for day, number, _ in self.certain if day == today)
        possible = Counter(number for day, number, _ in self.possible if day == today)
        return {number: (certain[number], most) for number, most in possible.items()}


@dataclass
class LiveModel:
    """All sessions by user and session id."""

    sessions: dict[tuple[int, str], Session] = field(default_factory=dict)
    players: Players = field(default_factory=Players)

    def beat(self, user: int, session_id: str, number: int, now_ms: int) -> bool:
        """Whether it lives."""
        held = self.sessions.get((user, session_id))
        if held is not None and held.number == 0 and held.at_ms > now_ms - TTL_MS:
            return False
        self.sessions[user, session_id] = Session(number, now_ms)
        return True

    def end(self, user: int, session_id: str, now_ms: int) -> bool:
        """Whether it lived."""
        held = self.sessions.get((user, session_id))
        if held is None or held.number == 0 or held.at_ms <= now_ms - TTL_MS:
            return False
        self.sessions[user, session_id] = Session(0, now_ms)
        return True

    def counts(self, now_ms: int, hidden: Collection[int]) -> dict[int, tuple[int, int]]:
        """Sessions and people by game, of the games that have any, without those who hide. Beats ahead of the clock are
        pulled back to it.
        """
        people: dict[int, list[int]] = {}
        for key, session in list(self.sessions.items()):
            session.at_ms = min(session.at_ms, now_ms)
            if session.at_ms <= now_ms - TTL_MS:
                del self.sessions[key]
            elif session.number and key[0] not in hidden:
                people.setdefault(session.number, []).append(key[0])
        return {number: (len(users), len(set(users))) for number, users in people.items()}

    def copy(self) -> LiveModel:
        """As it is now."""
        return copy.deepcopy(self)
