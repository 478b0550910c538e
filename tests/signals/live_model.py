"""What live sessions should be, in plain dictionaries."""

from __future__ import annotations

import copy
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
class LiveModel:
    """All sessions by user and session id."""

    sessions: dict[tuple[int, str], Session] = field(default_factory=dict)

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
