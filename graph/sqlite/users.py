"""Users: their names and their packed states."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence

import orjson

from graph.changes import UserChange
from graph.social_graph import ChangeKind, Deletions, User, UserDeletedError, UserRow
from graph.sqlite.columns import as_json, columns, write_rows
from graph.sqlite.transaction import Transaction
from graph.visibility import UserFlag, change_flags, is_deleted, version_of


def read_users(connection: sqlite3.Connection, user_ids: Collection[int]) -> dict[int, User]:
    """Users by id, deleted and unknown ones left out."""
    ids, names = columns(
        connection,
        f"""
        SELECT json_group_array(u.id), json_group_array(u.name)
        FROM json_each(?) AS asked CROSS JOIN users AS u ON u.id = asked.value
        WHERE NOT u.state & {UserFlag.DELETED:d}
        """,  # noqa: S608  # a constant of ours
        (as_json(user_ids),),
    )
    return {user_id: User(user_id, name) for user_id, name in zip(ids, names, strict=True)}


def read_states(connection: sqlite3.Connection, user_ids: Iterable[int]) -> dict[int, int]:
    """Packed states by id, users never written left out."""
    ids, states = columns(
        connection,
        """
        SELECT json_group_array(u.id), json_group_array(u.state)
        FROM json_each(?) AS asked CROSS JOIN users AS u ON u.id = asked.value
        """,
        (as_json(user_ids),),
    )
    return dict(zip(ids, states, strict=True))


def read_invisible_users(connection: sqlite3.Connection) -> dict[int, int]:
    """Everybody who is hidden or deleted, and the version of their state."""
    ids, states = columns(
        connection,
        f"""
        SELECT json_group_array(id), json_group_array(state) FROM users INDEXED BY users_invisible
        WHERE state & {UserFlag.HIDDEN | UserFlag.DELETED:d}
        """,  # noqa: S608  # a constant of ours
    )
    return {user_id: version_of(state) for user_id, state in zip(ids, states, strict=True)}


def read_deletions(connection: sqlite3.Connection, since: int) -> Deletions:
    """Who was deleted after the deletion with this number."""
    number, ids = connection.execute(
        "SELECT ifnull(max(number), ?1), json_group_array(user_id) FROM deletions WHERE number > ?1", (since,)
    ).fetchone()
    return Deletions(number, orjson.loads(ids))


def create_users(transaction: Transaction, user_ids: Iterable[int]) -> None:
    """Make the users that are not there yet."""
    transaction.connection.execute(
        "INSERT INTO users (id) SELECT value FROM json_each(?) WHERE true ON CONFLICT (id) DO NOTHING",
        (as_json(user_ids),),
    )


def save_users(transaction: Transaction, rows: Sequence[UserRow]) -> None:
    """Create or name users. Raises UserDeletedError before anything is written."""
    states = read_states(transaction.connection, {row.id for row in rows})
    for row in rows:
        if is_deleted(states.get(row.id, 0)):
            raise UserDeletedError(row.id)
    write_names(transaction, rows)


def write_names(transaction: Transaction, rows: Sequence[UserRow]) -> None:
    """Create or name users that are known not to be deleted. Of two rows of a user the later name stays."""
    write_rows(
        transaction.connection,
        """
        INSERT INTO users (id, name) VALUES {rows}
        ON CONFLICT (id) DO UPDATE SET name = excluded.name
            WHERE excluded.name IS NOT NULL AND excluded.name IS NOT users.name
        """,
        [(row.id, row.name) for row in rows],
    )


def change_users(transaction: Transaction, changes: Sequence[UserChange]) -> list[bool | Exception]:
    """Set or clear flags, in order; creates the users. Answers whether each changed anything.

    Only the deletion of a deleted user is let through (and changes nothing); anything else is UserDeletedError.
    """
    states = read_states(transaction.connection, {change.user_id for change in changes})
    answers: list[bool | Exception] = []
    changed: set[int] = set()
    deleted: list[tuple[int]] = []
    for user_id, flag, on in changes:
        before = states.get(user_id, 0)
        if is_deleted(before) and not (on and flag == UserFlag.DELETED):
            answers.append(UserDeletedError(user_id))
            continue
        after = change_flags(before, set_flags=flag) if on else change_flags(before, clear_flags=flag)
        if after != before:
            states[user_id] = after
            changed.add(user_id)
            if flag == UserFlag.DELETED:
                deleted.append((user_id,))
            transaction.tell(ChangeKind.USER, user_id)
        answers.append(after != before)
    if changed:
        write_rows(
            transaction.connection,
            "INSERT INTO users (id, state) VALUES {rows} ON CONFLICT (id) DO UPDATE SET state = excluded.state",
            [(user_id, states[user_id]) for user_id in sorted(changed)],
        )
    write_rows(transaction.connection, "INSERT INTO deletions (user_id) VALUES {rows}", deleted)
    return answers
