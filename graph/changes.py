"""Changes of edges and of users' states, as the adapters of the truth take them."""

from __future__ import annotations

from typing import NamedTuple

from graph.visibility import EdgeFlag, UserFlag


class Play(NamedTuple):
    """A play to record."""

    user_id: int
    game_id: int


class UserChange(NamedTuple):
    """A flag of a user's state, set or cleared."""

    user_id: int
    flag: UserFlag
    on: bool


class EdgeChange(NamedTuple):
    """A flag of the edge between two users, set or cleared."""

    low: int
    high: int
    flag: EdgeFlag
    on: bool


class EdgeAnswer(NamedTuple):
    """An edge after a change: its packed state, and whether the change changed it."""

    state: int
    changed: bool


def friendship_change(user_id: int, friend_id: int, friends: bool) -> EdgeChange:
    """The change that befriends or parts two users. Raises ValueError where they are one."""
    low, high = _ends(user_id, friend_id)
    return EdgeChange(low, high, EdgeFlag.FRIENDS, friends)


def block_change(user_id: int, other_id: int, blocked: bool) -> EdgeChange:
    """The change by which the first user blocks the other, or no longer does. Raises ValueError where they are one."""
    low, high = _ends(user_id, other_id)
    return EdgeChange(low, high, EdgeFlag.LOWER_BLOCKS if user_id == low else EdgeFlag.HIGHER_BLOCKS, blocked)


def _ends(user_id: int, other_id: int) -> tuple[int, int]:
    if user_id == other_id:
        raise ValueError(f"user {user_id} has no edge to themselves")
    return min(user_id, other_id), max(user_id, other_id)
