"""The truth as plain sets, to compare with: what the views, the fan-out and the cold pages need of `SocialGraph`."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection

from events.event import Event, EventKind
from graph.social_graph import SeenLog
from graph.visibility import CursorState, EdgeFlag, UserFlag, Visibility, change_flags, visibility

#: More friends than this, and a user's plays are pulled; not more, and they are pushed: without the room that the truth
#: leaves in between, so that users cross the limit as often as they can.
MOST_FRIENDS_PUSHED = 2


class ModelGraph:
    """Users, friendships, blocks and play logs. Each read sees one moment; each write returns its events."""

    def __init__(self, user_ids: Collection[int]) -> None:
        self.user_ids = sorted(user_ids)
        self.logs: dict[int, list[int]] = {user_id: [] for user_id in user_ids}
        self.states = dict.fromkeys(user_ids, 0)
        self.edges: dict[tuple[int, int], int] = {}
        self.events: list[Event] = []
        self.crossings: Counter[str] = Counter()  # of the limit, by what followed
        self.history: list[dict[int, dict[int, int]]] = []
        self._remember()

    # Writes

    def play(self, owner_id: int, number: int) -> list[Event]:
        if number in self.logs[owner_id]:
            return []
        self.logs[owner_id].append(number)
        return self._told(("play", owner_id, 0, len(self.logs[owner_id]), number))

    def grow(self, owner_id: int, numbers: Collection[int]) -> list[Event]:
        """What an import does: any number of entries, one event."""
        new = [number for number in numbers if number not in self.logs[owner_id]]
        self.logs[owner_id] += new
        return self._told(("log", owner_id, 0, 0, 0)) if new else []

    def befriend(self, user_id: int, friend_id: int, friends: bool) -> list[Event]:
        changed = self._change_edge(user_id, friend_id, EdgeFlag.FRIENDS, friends)
        return self._told(*changed, *self._crossings(user_id, friend_id)) if changed else []

    def block(self, user_id: int, other_id: int, blocks: bool) -> list[Event]:
        flag = EdgeFlag.LOWER_BLOCKS if user_id < other_id else EdgeFlag.HIGHER_BLOCKS
        return self._told(*self._change_edge(user_id, other_id, flag, blocks))

    def hide(self, user_id: int, hides: bool) -> list[Event]:
        return self._told(*self._change_user(user_id, UserFlag.HIDDEN, hides))

    def _change_edge(self, a: int, b: int, flag: EdgeFlag, on: bool) -> list[tuple[EventKind, int, int, int, int]]:
        pair = min(a, b), max(a, b)
        packed = self.edges.get(pair, 0)
        self.edges[pair] = change_flags(packed, set_flags=flag if on else 0, clear_flags=0 if on else flag)
        return [("edge", *pair, 0, 0)] if self.edges[pair] != packed else []

    def _change_user(self, user_id: int, flag: UserFlag, on: bool) -> list[tuple[EventKind, int, int, int, int]]:
        packed = self.states[user_id]
        self.states[user_id] = change_flags(packed, set_flags=flag if on else 0, clear_flags=0 if on else flag)
        if flag is UserFlag.PULL and self.states[user_id] != packed:
            self.crossings["pull" if on else "push"] += 1
        return [("user", user_id, 0, 0, 0)] if self.states[user_id] != packed else []

    def _crossings(self, *user_ids: int) -> list[tuple[EventKind, int, int, int, int]]:
        return [
            change
            for user_id in user_ids
            for change in self._change_user(user_id, UserFlag.PULL, len(self._friends(user_id)) > MOST_FRIENDS_PUSHED)
        ]

    def _told(self, *changes: tuple[EventKind, int, int, int, int]) -> list[Event]:
        events = [Event(len(self.events) + place, *change) for place, change in enumerate(changes)]
        self.events += events
        self._remember()
        return events

    def _remember(self) -> None:
        self.history.append({user_id: self.truth(user_id) for user_id in self.user_ids})

    # What is true

    def truth(self, viewer_id: int) -> dict[int, int]:
        """How many friends played each game: the definition, from nothing but the sets."""
        return dict(
            Counter(
                number
                for owner_id, log in self.logs.items()
                if owner_id != viewer_id and self._sees(viewer_id, owner_id).state is not CursorState.OFF
                for number in log
            )
        )

    def _sees(self, viewer_id: int, owner_id: int) -> Visibility:
        pair = min(viewer_id, owner_id), max(viewer_id, owner_id)
        return visibility(self.edges.get(pair, 0), self.states[owner_id])

    def _friends(self, user_id: int) -> list[int]:
        return [
            other
            for pair, packed in self.edges.items()
            if user_id in pair and packed & EdgeFlag.FRIENDS
            for other in pair
            if other != user_id
        ]

    def _log(self, owner_id: int) -> bytes:
        log = self.logs[owner_id]
        return struct.pack(f"<{len(log)}I", *log)

    # The reads of SocialGraph

    async def friends(self, user_ids: Collection[int]) -> dict[int, list[int]]:
        return {user_id: self._friends(user_id) for user_id in user_ids}

    async def user_state(self, user_id: int) -> int:
        return self.states[user_id]

    async def pulled_logs(self) -> dict[int, int]:
        return {user_id: len(self.logs[user_id]) for user_id in self.user_ids if self.states[user_id] & UserFlag.PULL}

    async def visibilities(self, viewer_id: int, owner_ids: Collection[int]) -> dict[int, Visibility]:
        return {owner_id: self._sees(viewer_id, owner_id) for owner_id in owner_ids}

    async def play_logs(self, user_ids: Collection[int]) -> dict[int, bytes]:
        return {user_id: self._log(user_id) for user_id in user_ids if self.logs[user_id]}

    async def seen_logs(self, viewer_id: int, owner_ids: Collection[int] | None = None) -> dict[int, SeenLog]:
        asked = [user_id for user_id in self.user_ids if user_id != viewer_id] if owner_ids is None else owner_ids
        seen = {}
        for owner_id in asked:
            version, state = self._sees(viewer_id, owner_id)
            if state is not CursorState.OFF:
                seen[owner_id] = SeenLog(version, state, self._log(owner_id))
            elif owner_ids is not None:
                seen[owner_id] = SeenLog(version, state, b"")
        return seen
