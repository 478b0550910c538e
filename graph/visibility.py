"""Who sees whose plays: a versioned integer on the edge, another on the user, and what the two add up to.

State and version are one integer (`version * 8 + flags`), so that no reader ever gets one without the other. Both
versions only grow, and so does their sum, `Visibility.version`: of two readings of a pair the one with the greater
version is the later one.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple

FLAG_BITS = 3
FLAG_MASK = (1 << FLAG_BITS) - 1


class EdgeFlag(IntFlag):
    """What stands between two users. "Lower" and "higher" are the two by their ids."""

    FRIENDS = 1
    LOWER_BLOCKS = 2
    HIGHER_BLOCKS = 4


class UserFlag(IntFlag):
    """What a user's own state says to everybody who might see their plays."""

    HIDDEN = 1
    DELETED = 2
    PULL = 4


class CursorState(IntEnum):
    """How a friend's plays reach a view: not at all, pushed by fan-out, or pulled when the view is read."""

    OFF = 0
    PUSH = 1
    PULL = 2


class Visibility(NamedTuple):
    """Whether and how a viewer sees an owner's plays, and the version of that answer."""

    version: int
    state: CursorState


# Arithmetic on an IntFlag makes an enum member each time, 2 us; these functions run for every friend of a cold page.
_FRIENDS = int(EdgeFlag.FRIENDS)
_DELETED = int(UserFlag.DELETED)
_UNSEEN = int(UserFlag.HIDDEN | UserFlag.DELETED)
_PULL = int(UserFlag.PULL)


def version_of(packed: int) -> int:
    """The version in a packed edge or user state."""
    return packed >> FLAG_BITS


def is_deleted(state: int) -> bool:
    """Whether a packed user state says that the user was deleted."""
    return bool(state & _DELETED)


def is_pulled(friends: int, max_friends: int, *, before: bool) -> bool:
    """Whether a user's plays are pulled by their friends' pages and not pushed to them.

    Past `max_friends` friendships they are, and until there are fewer than nine tenths of it, so that who stands at the
    limit does not cross it with every change.

    Args:
        friends: how many friendships the user has.
        max_friends: the setting FANOUT_MAX_FRIENDS.
        before: whether they were pulled so far.
    """
    return 10 * friends >= 9 * max_friends if before else friends > max_friends


def change_flags(packed: int, *, set_flags: int = 0, clear_flags: int = 0) -> int:
    """The packed state after a change: same version where no flag moves, else the next one."""
    flags = packed & FLAG_MASK
    changed = (flags | int(set_flags)) & ~int(clear_flags)
    if changed == flags:
        return packed
    return ((version_of(packed) + 1) << FLAG_BITS) | changed


def visibility(edge: int, owner: int) -> Visibility:
    """What a viewer sees of an owner.

    Args:
        edge: the packed state of the edge between the two, 0 where there is none.
        owner: the packed state of the user whose plays are looked at.

    Returns:
        The sum of both versions, and the state: on when they are friends, neither blocks the other, and the owner is
        neither hidden nor deleted.
    """
    version = (edge >> FLAG_BITS) + (owner >> FLAG_BITS)
    if edge & FLAG_MASK != _FRIENDS or owner & _UNSEEN:
        return Visibility(version, CursorState.OFF)
    return Visibility(version, CursorState.PULL if owner & _PULL else CursorState.PUSH)
