"""Edges between users: changed, and listed from either side."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import orjson

from graph.changes import EdgeAnswer, EdgeChange
from graph.social_graph import ChangeKind, User, UserDeletedError, UserPage
from graph.sqlite.columns import as_json, columns, read_by_rows, write_rows
from graph.sqlite.degrees import change_degrees
from graph.sqlite.transaction import Transaction
from graph.sqlite.users import create_users, read_states
from graph.visibility import FLAG_MASK, EdgeFlag, UserFlag, change_flags, is_deleted


def change_edges(transaction: Transaction, changes: Sequence[EdgeChange]) -> list[EdgeAnswer | Exception]:
    """Set or clear flags, in order; creates the users of the edges that change."""
    edges = _read_edges(transaction.connection, {(change.low, change.high) for change in changes})
    ids = {change.low for change in changes} | {change.high for change in changes}
    states = read_states(transaction.connection, ids)
    deleted = {user_id for user_id, state in states.items() if is_deleted(state)}
    answers: list[EdgeAnswer | Exception] = []
    changed: dict[tuple[int, int], int] = {}
    degrees: Counter[int] = Counter()
    for low, high, flag, on in changes:
        if low in deleted or high in deleted:
            answers.append(UserDeletedError(low if low in deleted else high))
            continue
        before = edges.get((low, high), 0)
        after = change_flags(before, set_flags=flag) if on else change_flags(before, clear_flags=flag)
        if after != before:
            edges[low, high] = changed[low, high] = after
            transaction.tell(ChangeKind.EDGE, low, other_id=high)
            if flag == EdgeFlag.FRIENDS:
                for user_id in (low, high):
                    degrees[user_id] += 1 if on else -1
        answers.append(EdgeAnswer(after, after != before))
    if changed:
        _write_edges(transaction, [(low, high, state) for (low, high), state in sorted(changed.items())], states)
        change_degrees(transaction, degrees, states)
    return answers


def befriend_all(transaction: Transaction, pairs: Collection[tuple[int, int]], states: Mapping[int, int]) -> None:
    """Befriend very many pairs, each given once, lower id first, of users none of whom is deleted.

    `states` are the packed states of those of the users that exist.
    """
    edges = _read_edges(transaction.connection, pairs)
    befriend = int(EdgeFlag.FRIENDS)
    stood = {pair: change_flags(state, set_flags=befriend) for pair, state in edges.items() if not state & befriend}
    new = sorted(pair for pair in pairs if pair not in edges)
    if stood:
        new = sorted([*new, *stood])
    if not new:
        return
    transaction.tell_edges(new)
    first = change_flags(0, set_flags=befriend)
    _write_edges(transaction, [(low, high, stood.get((low, high), first)) for low, high in new], states)
    change_degrees(transaction, Counter(chain.from_iterable(new)), states)


def _write_edges(transaction: Transaction, rows: Sequence[tuple[int, int, int]], states: Mapping[int, int]) -> None:
    """Write edges (lower id, higher id, packed state), given in the order of their ids."""
    missing = {user_id for low, high, _ in rows for user_id in (low, high)} - states.keys()
    if missing:
        create_users(transaction, sorted(missing))
    write_rows(
        transaction.connection,
        """
        INSERT INTO edges (low, high, state) VALUES {rows}
        ON CONFLICT (low, high) DO UPDATE SET state = excluded.state
        """,
        rows,
    )


def _read_edges(connection: sqlite3.Connection, pairs: Collection[tuple[int, int]]) -> dict[tuple[int, int], int]:
    if not pairs:
        return {}
    lows, highs, states = read_by_rows(
        connection,
        """
        WITH asked (low, high) AS (VALUES {rows})
        SELECT json_group_array(e.low), json_group_array(e.high), json_group_array(e.state)
        FROM asked CROSS JOIN edges AS e ON e.low = asked.low AND e.high = asked.high
        """,
        sorted(pairs),
    )
    return dict(zip(zip(lows, highs, strict=True), states, strict=True))


# Both sides of a user's edges. The friends below the user come first, so that each arm and the whole ascend.
_FRIENDS_OF_EACH = f"""
    SELECT asked.value AS user_id, e.low AS friend_id
    FROM json_each(?1) AS asked CROSS JOIN edges AS e ON e.high = asked.value
    WHERE e.state & {EdgeFlag.FRIENDS:d}
    UNION ALL
    SELECT asked.value, e.high
    FROM json_each(?1) AS asked CROSS JOIN edges AS e ON e.low = asked.value
    WHERE e.state & {EdgeFlag.FRIENDS:d}
"""  # noqa: S608  # constants of ours


def read_friends(connection: sqlite3.Connection, user_ids: Collection[int]) -> dict[int, list[int]]:
    """Ascending ids of everybody each user has a friendship with, blocked or deleted too; every id asked is a key."""
    users, friends = columns(
        connection,
        f"SELECT json_group_array(user_id), json_group_array(friend_id) FROM ({_FRIENDS_OF_EACH})",  # noqa: S608  # ours
        (as_json(user_ids),),
    )
    found: dict[int, list[int]] = {user_id: [] for user_id in user_ids}
    for user_id, friend_id in zip(users, friends, strict=True):
        found[user_id].append(friend_id)
    return found


def read_friend_page(connection: sqlite3.Connection, user_id: int, first: int, after_id: int) -> UserPage:
    """Friends of a user by ascending id: neither blocks the other, and the friend is not deleted; nor is the user."""
    friends = f"state & {FLAG_MASK} = {EdgeFlag.FRIENDS:d}"
    return _read_page(connection, friends, friends, user_id, first, after_id)


def read_blocked_page(connection: sqlite3.Connection, user_id: int, first: int, after_id: int) -> UserPage:
    """Whom a user blocks, by ascending id, deleted ones left out; nobody for a deleted user."""
    below, above = f"state & {EdgeFlag.HIGHER_BLOCKS:d}", f"state & {EdgeFlag.LOWER_BLOCKS:d}"
    return _read_page(connection, below, above, user_id, first, after_id)


def _read_page(
    connection: sqlite3.Connection, below: str, above: str, user_id: int, first: int, after_id: int
) -> UserPage:
    """Users at the other ends of a user's edges: of those with lower ids where `below` holds, of others `above`."""
    total, ids, names = connection.execute(
        f"""
        WITH found (id, name) AS (
            SELECT u.id, u.name FROM (
                SELECT low AS id FROM edges WHERE high = ?1 AND {below}
                UNION ALL
                SELECT high FROM edges WHERE low = ?1 AND {above}
            ) AS f CROSS JOIN users AS u ON u.id = f.id
            WHERE NOT u.state & {UserFlag.DELETED:d}
                AND NOT EXISTS (SELECT 1 FROM users WHERE id = ?1 AND state & {UserFlag.DELETED:d})
        )
        SELECT (SELECT count(*) FROM found), json_group_array(id), json_group_array(name)
        FROM (SELECT id, name FROM found WHERE id > ?2 ORDER BY id LIMIT ?3)
        """,  # noqa: S608  # constants of ours
        (user_id, after_id, first + 1),
    ).fetchone()
    users = [User(user_id, name) for user_id, name in zip(orjson.loads(ids), orjson.loads(names), strict=True)]
    return UserPage(users[:first], total, len(users) > first)
