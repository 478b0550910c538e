"""Batches of an import: all of the rows in one transaction, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Literal, cast

from graph.social_graph import MAX_ID, ChangeKind, FriendshipRow, GameRow, PlayRow, UserRow
from graph.sqlite.friendships import befriend_all
from graph.sqlite.games import read_numbers, save_games
from graph.sqlite.plays import read_play_logs, write_play_logs
from graph.sqlite.transaction import Transaction
from graph.sqlite.users import read_states, write_names
from graph.visibility import is_deleted

LATEST_MS = 253_402_300_799_999  # the end of the year 9999

#: Rows that cannot be imported: their place in the batch, and the rule they break.
BadRows = Mapping[int, str]


def import_batch(
    transaction: Transaction,
    kind: Literal["games", "users", "friends", "plays"],
    rows: Sequence[GameRow] | Sequence[UserRow] | Sequence[FriendshipRow] | Sequence[PlayRow],
) -> BadRows:
    """Write a batch of one kind. Bad rows are found before anything is written; with any, nothing is."""
    match kind:
        case "games":
            return import_games(transaction, cast("Sequence[GameRow]", rows))
        case "users":
            return import_users(transaction, cast("Sequence[UserRow]", rows))
        case "friends":
            return import_friends(transaction, cast("Sequence[FriendshipRow]", rows))
        case "plays":
            return import_plays(transaction, cast("Sequence[PlayRow]", rows))


def import_games(transaction: Transaction, rows: Sequence[GameRow]) -> BadRows:
    """Create or change games."""
    bad = _bad_ids([row.id for row in rows]) | _bad_names(row.name for row in rows)
    if not bad:
        save_games(transaction, rows)
    return bad


def import_users(transaction: Transaction, rows: Sequence[UserRow]) -> BadRows:
    """Create or name users."""
    ids = [row.id for row in rows]
    bad = _bad_ids(ids) | _bad_names(row.name for row in rows)
    if not bad:
        bad = _of_deleted_users(read_states(transaction.connection, set(ids)), ids)
    if not bad:
        write_names(transaction, rows)
    return bad


def import_friends(transaction: Transaction, rows: Sequence[FriendshipRow]) -> BadRows:
    """Befriend users; creates them."""
    users, friends = [row.user_id for row in rows], [row.friend_id for row in rows]
    bad = _bad_ids(users, friends)
    for index, (user_id, friend_id) in enumerate(zip(users, friends, strict=True)):
        if user_id == friend_id:
            bad.setdefault(index, f"user {user_id} cannot be a friend of themselves")
    if bad:
        return bad
    states = read_states(transaction.connection, {*users, *friends})
    bad = _of_deleted_users(states, users, friends)
    if not bad:
        pairs = {(a, b) if a < b else (b, a) for a, b in zip(users, friends, strict=True)}
        befriend_all(transaction, pairs, states)
    return bad


def import_plays(transaction: Transaction, rows: Sequence[PlayRow]) -> BadRows:
    """Append plays to logs, a user's in the order of their times; creates users and games."""
    users, games = [row.user_id for row in rows], [row.game_id for row in rows]
    bad = _bad_ids(users, games)
    for index, row in enumerate(rows):
        if row.played_at_ms is not None and not 0 <= row.played_at_ms <= LATEST_MS:
            bad.setdefault(index, f"{row.played_at_ms} is not a time (Unix milliseconds)")
    if bad:
        return bad
    logs = read_play_logs(transaction.connection, set(users))
    bad = _of_deleted_users({log.user_id: log.state for log in logs.values()}, users)
    if bad:
        return bad
    numbers = read_numbers(transaction.connection, set(games))
    unknown = [GameRow(game_id, None) for game_id in dict.fromkeys(games) if game_id not in numbers]
    if unknown:
        numbers |= {game.id: game.number for game in save_games(transaction, unknown)}
    now_ms = transaction.now_ms
    timed = [
        (now_ms if played_at_ms is None else played_at_ms, user_id, numbers[game_id])
        for user_id, game_id, played_at_ms in rows
    ]
    timed.sort(key=itemgetter(0))  # stable: plays of one time keep the order of the rows
    for played_at_ms, user_id, number in timed:
        logs[user_id].append(number, played_at_ms)
    write_play_logs(transaction, logs.values())
    for log in logs.values():
        if log.appended:
            transaction.tell(ChangeKind.LOG, log.user_id)
    return bad


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


def _of_deleted_users(states: Mapping[int, int], *columns: Sequence[int]) -> dict[int, str]:
    deleted = {user_id for user_id, state in states.items() if is_deleted(state)}
    if not deleted:
        return {}
    return {
        index: f"user {user_id} was deleted"
        for column in columns
        for index, user_id in enumerate(column)
        if user_id in deleted
    }
