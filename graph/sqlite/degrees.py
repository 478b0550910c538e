"""How many friendships users have, and who therefore has too many for their plays to be pushed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from graph.social_graph import ChangeKind
from graph.sqlite.columns import as_json, columns, write_rows
from graph.sqlite.transaction import Transaction
from graph.visibility import UserFlag, change_flags, is_pulled

# As a plain integer: arithmetic on an IntFlag makes an enum member each time, and this runs for each user of an import.
_PULL = int(UserFlag.PULL)


def change_degrees(transaction: Transaction, changes: Mapping[int, int], states: Mapping[int, int]) -> None:
    """Add to users' numbers of friendships, and set or clear the PULL flag of those who cross the limit.

    Args:
        transaction: the one that befriends or parts; the users are there.
        changes: user to how many friendships came (or, below 0, went).
        states: the packed states of users; those without one are new.
    """
    changed = sorted((user_id, change) for user_id, change in changes.items() if change)
    if not changed:
        return
    write_rows(
        transaction.connection,
        """
        INSERT INTO degrees (user_id, friends) VALUES {rows}
        ON CONFLICT (user_id) DO UPDATE SET friends = friends + excluded.friends
        """,
        changed,
    )
    (max_friends,) = transaction.connection.execute("SELECT fanout_max_friends FROM truth").fetchone()
    pulled = [user_id for user_id, _ in changed if states.get(user_id, 0) & _PULL]
    # Of the many who are neither near the limit nor past it, nothing is read back.
    ids, degrees = columns(
        transaction.connection,
        """
        SELECT json_group_array(d.user_id), json_group_array(d.friends)
        FROM json_each(?1) AS asked CROSS JOIN degrees AS d ON d.user_id = asked.value
        WHERE d.friends > ?2 OR d.user_id IN (SELECT value FROM json_each(?3))
        """,
        (as_json(user_id for user_id, _ in changed), max_friends, as_json(pulled)),
    )
    _set_flags(transaction, max_friends, {u: (states.get(u, 0), n) for u, n in zip(ids, degrees, strict=True)})


def set_limit(transaction: Transaction, max_friends: int) -> None:
    """Pull the plays of users with more friendships than this from now on; changes nothing where that is so already.

    The limit stands in the truth, so that all processes that write to it go by the same.
    """
    (before,) = transaction.connection.execute("SELECT fanout_max_friends FROM truth").fetchone()
    if before == max_friends:
        return
    transaction.connection.execute("UPDATE truth SET fanout_max_friends = ?", (max_friends,))
    ids, states, degrees = columns(
        transaction.connection,
        f"""
        SELECT json_group_array(u.id), json_group_array(u.state), json_group_array(ifnull(d.friends, 0))
        FROM (
            SELECT user_id AS id FROM degrees WHERE friends > ?
            UNION SELECT id FROM users WHERE state & {UserFlag.PULL:d}
        ) AS asked CROSS JOIN users AS u ON u.id = asked.id LEFT JOIN degrees AS d ON d.user_id = asked.id
        """,  # noqa: S608  # a constant of ours
        (max_friends,),
    )
    _set_flags(transaction, max_friends, {u: (s, n) for u, s, n in zip(ids, states, degrees, strict=True)})


def _set_flags(transaction: Transaction, max_friends: int, users: Mapping[int, tuple[int, int]]) -> None:
    """Set or clear the flag by state and degree, and tell it."""
    moved: list[tuple[int, int]] = []
    for user_id, (state, friends) in sorted(users.items()):
        pulled = is_pulled(friends, max_friends, before=bool(state & _PULL))
        after = change_flags(state, **{"set_flags" if pulled else "clear_flags": _PULL})
        if after != state:
            moved.append((user_id, after))
            transaction.tell(ChangeKind.USER, user_id)
    if moved:
        write_rows(
            transaction.connection,
            "INSERT INTO users (id, state) VALUES {rows} ON CONFLICT (id) DO UPDATE SET state = excluded.state",
            moved,
        )


def read_pulled_logs(connection: sqlite3.Connection) -> dict[int, int]:
    """Everybody whose plays are pulled, and the length of their log."""
    ids, lengths = columns(
        connection,
        f"""
        SELECT json_group_array(id), json_group_array(plays)
        FROM users INDEXED BY users_pulled WHERE state & {UserFlag.PULL:d}
        """,  # noqa: S608  # a constant of ours
    )
    return dict(zip(ids, lengths, strict=True))
