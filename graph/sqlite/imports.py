"""Batches of an import: all of the rows in one transaction, or none."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Literal, cast

from graph.import_rules import BadRows, bad_friendships, bad_named_rows, bad_plays, of_deleted_users
from graph.social_graph import FriendshipRow, GameRow, PlayRow, UserRow
from graph.sqlite.friendships import befriend_all
from graph.sqlite.games import read_numbers, save_games
from graph.sqlite.plays import read_play_logs, write_play_logs
from graph.sqlite.transaction import Transaction
from graph.sqlite.users import read_states, write_names


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
    bad = bad_named_rows(rows)
    if not bad:
        save_games(transaction, rows)
    return bad


def import_users(transaction: Transaction, rows: Sequence[UserRow]) -> BadRows:
    """Create or name users."""
    ids = [row.id for row in rows]
    bad = bad_named_rows(rows)
    if not bad:
        bad = of_deleted_users(read_states(transaction.connection, set(ids)), ids)
    if not bad:
        write_names(transaction, rows)
    return bad


def import_friends(transaction: Transaction, rows: Sequence[FriendshipRow]) -> BadRows:
    """Befriend users; creates them."""
    users, friends = [row.user_id for row in rows], [row.friend_id for row in rows]
    bad = bad_friendships(rows)
    if bad:
        return bad
    states = read_states(transaction.connection, {*users, *friends})
    bad = of_deleted_users(states, users, friends)
    if not bad:
        pairs = {(a, b) if a < b else (b, a) for a, b in zip(users, friends, strict=True)}
        befriend_all(transaction, pairs, states)
    return bad


def import_plays(transaction: Transaction, rows: Sequence[PlayRow]) -> BadRows:
    """Append plays to logs, a user's in the order of their times; creates users and games."""
    users, games = [row.user_id for row in rows], [row.game_id for row in rows]
    bad = bad_plays(rows)
    if bad:
        return bad
    logs = read_play_logs(transaction.connection, set(users))
    bad = of_deleted_users({log.user_id: log.state for log in logs.values()}, users)
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
    transaction.tell_logs(log.user_id for log in logs.values() if log.appended)
    return bad
