"""Batches of an import: all of the rows in one transaction, or none."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Literal, cast

from graph.changes import EdgeChange
from graph.import_rules import BadRows, bad_friendships, bad_named_rows, bad_plays, of_deleted_users
from graph.neo4j.friendships import write_edge_changes
from graph.neo4j.games import GameNumbers, save_games
from graph.neo4j.plays import append
from graph.neo4j.transaction import Transaction
from graph.neo4j.users import lock_users, write_names
from graph.social_graph import ChangeKind, FriendshipRow, GameRow, PlayRow, UserRow
from graph.visibility import EdgeFlag


async def import_batch(
    transaction: Transaction,
    numbers: GameNumbers,
    kind: Literal["games", "users", "friends", "plays"],
    rows: Sequence[GameRow] | Sequence[UserRow] | Sequence[FriendshipRow] | Sequence[PlayRow],
) -> BadRows:
    """Write a batch of one kind. Bad rows are found before anything is written; with any, nothing is."""
    match kind:
        case "games":
            return await import_games(transaction, cast("Sequence[GameRow]", rows))
        case "users":
            return await import_users(transaction, cast("Sequence[UserRow]", rows))
        case "friends":
            return await import_friends(transaction, cast("Sequence[FriendshipRow]", rows))
        case "plays":
            return await import_plays(transaction, numbers, cast("Sequence[PlayRow]", rows))


async def import_games(transaction: Transaction, rows: Sequence[GameRow]) -> BadRows:
    """Create or change games."""
    bad = bad_named_rows(rows)
    if not bad:
        await save_games(transaction, rows)
    return bad


async def import_users(transaction: Transaction, rows: Sequence[UserRow]) -> BadRows:
    """Create or name users."""
    ids = [row.id for row in rows]
    bad = bad_named_rows(rows)
    if not bad:
        locked = await lock_users(transaction, ids)
        bad = of_deleted_users({user_id: user.state for user_id, user in locked.items()}, ids)
    if not bad:
        await write_names(transaction, rows)
    return bad


async def import_friends(transaction: Transaction, rows: Sequence[FriendshipRow]) -> BadRows:
    """Befriend users; creates them."""
    users, friends = [row.user_id for row in rows], [row.friend_id for row in rows]
    bad = bad_friendships(rows)
    if bad:
        return bad
    locked = await lock_users(transaction, [*users, *friends])
    bad = of_deleted_users({user_id: user.state for user_id, user in locked.items()}, users, friends)
    if not bad:
        befriend = EdgeFlag.FRIENDS
        changes = [EdgeChange(a, b, befriend, True) if a < b else EdgeChange(b, a, befriend, True) for a, b in rows]
        await write_edge_changes(transaction, changes, locked)
    return bad


async def import_plays(transaction: Transaction, numbers: GameNumbers, rows: Sequence[PlayRow]) -> BadRows:
    """Append plays to logs, a user's in the order of their times; creates users and games."""
    users = [row.user_id for row in rows]
    bad = bad_plays(rows)
    if bad:
        return bad
    locked = await lock_users(transaction, users)
    bad = of_deleted_users({user_id: user.state for user_id, user in locked.items()}, users)
    if bad:
        return bad
    games = dict.fromkeys(row.game_id for row in rows)
    known = await numbers.find(transaction, games)
    unknown = [GameRow(game_id, None) for game_id in games if game_id not in known]
    if unknown:
        known |= {game.id: game.number for game in await save_games(transaction, unknown)}
    now_ms = transaction.now_ms
    timed = [
        (now_ms if played_at_ms is None else played_at_ms, user_id, known[game_id])
        for user_id, game_id, played_at_ms in rows
    ]
    timed.sort(key=itemgetter(0))  # stable: plays of one time keep the order of the rows
    logs: dict[int, dict[int, int]] = {}
    for at_ms, user_id, number in timed:
        logs.setdefault(user_id, {}).setdefault(number, at_ms)
    if logs:
        appended = await append(transaction, {user: list(log.items()) for user, log in logs.items()}, tell=False)
        for user_id in sorted(appended):
            if appended[user_id].new:
                transaction.tell(ChangeKind.LOG, user_id)
    return bad
