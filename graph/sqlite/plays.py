"""Plays: conditional appends to users' logs, and the logs read back."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import orjson

from graph.changes import Play
from graph.social_graph import ChangeKind, PlayedGame, RecordedPlay, UnknownGameError, UserDeletedError
from graph.sqlite.columns import as_json, unpack_logs, write_rows
from graph.sqlite.games import read_numbers
from graph.sqlite.play_log import PlayLog
from graph.sqlite.transaction import Transaction
from graph.visibility import UserFlag, is_deleted


def record_plays(transaction: Transaction, plays: Sequence[Play]) -> list[RecordedPlay | Exception]:
    """Append each game to its user's log unless it is there, in order: of equal plays the earlier is first."""
    numbers = read_numbers(transaction.connection, {play.game_id for play in plays})
    logs = read_play_logs(transaction.connection, {play.user_id for play in plays})
    answers: list[RecordedPlay | Exception] = []
    for user_id, game_id in plays:
        log = logs[user_id]
        number = numbers.get(game_id)
        if is_deleted(log.state):
            answers.append(UserDeletedError(user_id))
        elif number is None:
            answers.append(UnknownGameError(game_id))
        else:
            recorded = log.append(number, transaction.now_ms)
            if recorded.first:
                transaction.tell(ChangeKind.PLAY, user_id, ordinal=recorded.ordinal, number=number)
            answers.append(recorded)
    write_play_logs(transaction, logs.values())
    return answers


def read_play_logs(connection: sqlite3.Connection, user_ids: Collection[int]) -> dict[int, PlayLog]:
    """The logs to append to; every id asked is a key."""
    ids, states, plays, digits = connection.execute(
        """
        SELECT json_group_array(u.id), json_group_array(u.state), json_group_array(u.plays),
            group_concat(hex(substr(u.numbers, 1, 4 * u.plays)), '')
        FROM json_each(?) AS asked CROSS JOIN users AS u ON u.id = asked.value
        """,
        (as_json(user_ids),),
    ).fetchone()
    packed = unpack_logs(digits, orjson.loads(plays))
    logs = {
        user_id: PlayLog(user_id, state, log)
        for user_id, state, log in zip(orjson.loads(ids), orjson.loads(states), packed, strict=True)
    }
    for user_id in user_ids:
        if user_id not in logs:
            logs[user_id] = PlayLog(user_id, 0, b"")
    return logs


def write_play_logs(transaction: Transaction, logs: Iterable[PlayLog]) -> None:
    """Write the logs that grew, creating their users, and the times of the new entries."""
    grown = sorted((log for log in logs if log.appended), key=lambda log: log.user_id)
    if not grown:
        return
    write_rows(
        transaction.connection,
        """
        INSERT INTO users (id, plays, numbers) VALUES {rows}
        ON CONFLICT (id) DO UPDATE SET plays = excluded.plays, numbers = excluded.numbers
        """,
        [(log.user_id, log.plays, log.padded()) for log in grown],
    )
    write_rows(
        transaction.connection,
        "INSERT INTO play_times (user_id, ordinal, played_at_ms) VALUES {rows}",
        [
            (log.user_id, ordinal, played_at_ms)
            for log in grown
            for ordinal, (_, played_at_ms) in enumerate(log.appended, start=log.plays - len(log.appended) + 1)
        ],
    )


def read_packed_logs(connection: sqlite3.Connection, user_ids: Collection[int]) -> dict[int, bytes]:
    """Packed logs by user, users without plays left out. A deleted user's log is still there: views take it back."""
    ids, plays, digits = connection.execute(
        """
        SELECT json_group_array(u.id), json_group_array(u.plays),
            group_concat(hex(substr(u.numbers, 1, 4 * u.plays)), '')
        FROM json_each(?) AS asked CROSS JOIN users AS u ON u.id = asked.value
        WHERE u.plays > 0
        """,
        (as_json(user_ids),),
    ).fetchone()
    return dict(zip(orjson.loads(ids), unpack_logs(digits, orjson.loads(plays)), strict=True))


def read_played_games(connection: sqlite3.Connection, user_id: int) -> list[PlayedGame]:
    """A user's log with its times, oldest first; none for a deleted user."""
    row = connection.execute(
        f"""
        SELECT plays, hex(substr(numbers, 1, 4 * plays)), (
            SELECT json_group_array(played_at_ms) FROM (
                SELECT played_at_ms FROM play_times WHERE user_id = ?1 ORDER BY ordinal
            )
        )
        FROM users WHERE id = ?1 AND NOT state & {UserFlag.DELETED:d}
        """,  # noqa: S608  # a constant of ours
        (user_id,),
    ).fetchone()
    if row is None:
        return []
    plays, digits, times = row
    (log,) = unpack_logs(digits, (plays,))
    numbers = np.frombuffer(log, dtype="<u4").tolist()
    return [PlayedGame(number, at_ms) for number, at_ms in zip(numbers, orjson.loads(times), strict=True)]
