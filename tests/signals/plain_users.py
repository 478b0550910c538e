"""The states of users in a plain dictionary, where live visibility reads the truth."""

from __future__ import annotations

from graph.visibility import UserFlag, change_flags, version_of

INVISIBLE = UserFlag.HIDDEN | UserFlag.DELETED


class PlainUsers:
    """Users and their packed states; everybody is there and visible to begin with."""

    def __init__(self, truth_id: str = "truth") -> None:
        self.truth_id = truth_id
        self.states: dict[int, int] = {}
        self.reads = 0

    def change(self, user_id: int, *, hidden: bool) -> bool:
        """Hide a user or show them again. Returns whether it changed anything."""
        before = self.states.get(user_id, 0)
        flag = UserFlag.HIDDEN
        self.states[user_id] = (
            change_flags(before, set_flags=flag) if hidden else change_flags(before, clear_flags=flag)
        )
        return self.states[user_id] != before

    def delete(self, user_id: int) -> None:
        """Delete a user for good."""
        self.states[user_id] = change_flags(self.states.get(user_id, 0), set_flags=UserFlag.DELETED)

    @property
    def invisible(self) -> set[int]:
        """Those who are hidden or deleted."""
        return {user_id for user_id, state in self.states.items() if state & INVISIBLE}

    async def user_state(self, user_id: int) -> int:
        """As of now."""
        return self.states.get(user_id, 0)

    async def invisible_users(self) -> dict[int, int]:
        """As of now."""
        self.reads += 1
        return {user_id: version_of(self.states[user_id]) for user_id in self.invisible}
