"""What a row of an import must be; the adapters of the truth ask before they write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graph.social_graph import MAX_ID, FriendshipRow, GameRow, PlayRow, UserRow
from graph.visibility import is_deleted

LATEST_MS = 253_402_300_799_999  # the end of the year 9999

#: Rows that cannot be imported: their place in the batch, and the rule they break.
BadRows = Mapping[int, str]


def bad_named_rows(rows: Sequence[GameRow] | Sequence[UserRow]) -> dict[int, str]:
    """Which games or users break a rule by themselves."""
    return _bad_ids([row.id for row in rows]) | _bad_names(row.name for row in rows)


def bad_friendships(rows: Sequence[FriendshipRow]) -> dict[int, str]:
    """Which friendships break a rule by themselves."""
    bad = _bad_ids([row.user_id for row in rows], [row.friend_id for row in rows])
    for index, (user_id, friend_id) in enumerate(rows):
        if user_id == friend_id:
            bad.setdefault(index, f"user {user_id} cannot be a friend of themselves")
    return bad


def bad_plays(rows: Sequence[PlayRow]) -> dict[int, str]:
    """Which plays break a rule by themselves."""
    bad = _bad_ids([row.user_id for row in rows], [row.game_id for row in rows])
    for index, row in enumerate(rows):
        if row.played_at_ms is not None and not 0 <= row.played_at_ms <= LATEST_MS:
            bad.setdefault(index, f"{row.played_at_ms} is not a time (Unix milliseconds)")
    return bad


def of_deleted_users(states: Mapping[int, int], *columns: Sequence[int]) -> dict[int, str]:
    """Which rows name a deleted user, by the packed states of the users and the columns of their ids."""
    deleted = {user_id for user_id, state in states.items() if is_deleted(state)}
    if not deleted:
        return {}
    return {
        index: f"user {user_id} was deleted"
        for column in columns
        for index, user_id in enumerate(column)
        if user_id in deleted
    }


def _bad_ids(*columns: Sequence[int]) -> dict[int, str]:
    bad: dict[int, str] = {}
    for column in columns:
        if column and not 1 <= min(column) <= max(column) <= MAX_ID:
            bad |= {
                index: f"{wrong} is not an id (1..{MAX_ID})"
                for index, wrong in enumerate(column)
                if not 1 <= wrong <= MAX_ID
            }
    return bad


def _bad_names(names: Iterable[str | None]) -> dict[int, str]:
    bad = {}
    for index, name in enumerate(names):
        try:
            (name or "").encode()
        except UnicodeEncodeError:  # half of a surrogate pair, from an escape in JSON
            bad[index] = "the name is not Unicode text"
    return bad
