"""Plays: conditional appends to users' logs, and the logs read back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from graph.changes import Play
from graph.neo4j.database import Database
from graph.neo4j.games import GameNumbers
from graph.neo4j.transaction import Transaction
from graph.neo4j.users import lock_users
from graph.social_graph import PlayedGame, RecordedPlay, UnknownGameError, UserDeletedError
from graph.visibility import is_deleted

# One row a user, by ascending id, each with distinct games: two rows of one user would both look before either wrote.
# First all locks, then the lists, matched again (the planner would read them before the lock). No game's node is met.
_APPEND = """
    UNWIND $rows AS row
    MERGE (locked:HeadcountUser {id: row.user}) SET locked.id = locked.id
    WITH row
    MATCH (u:HeadcountUser {id: row.user})
    WITH u, row, coalesce(u.state, 0) AS state, coalesce(u.plays, []) AS old
    WITH u, row, state, old, size(old) AS n,
        CASE WHEN state / 2 % 2 = 1 THEN []
            ELSE [i IN range(0, size(row.games) - 1) WHERE NOT row.games[i] IN old] END AS fresh
    CALL (u, row, old, n, fresh) {
        WITH * WHERE size(fresh) > 0
        SET u.plays = old + [i IN fresh | row.games[i]], u.times = coalesce(u.times, []) + [i IN fresh | row.times[i]]
        FOREACH (i IN CASE WHEN $tell THEN range(0, size(fresh) - 1) ELSE [] END |
            CREATE (:HeadcountOutbox:HeadcountWaiting {
                id: row.outbox + i, kind: "play", user: row.user, other: 0, ordinal: n + 1 + i,
                number: row.games[fresh[i]]
            }))
    }
    RETURN collect([row.user, state, n, fresh,
        CASE WHEN $tell AND size(fresh) < size(row.games)
            THEN [i IN range(0, n - 1) WHERE old[i] IN row.games | [old[i], i + 1]] ELSE [] END])
"""
_READ_LOGS = """
    UNWIND $ids AS id
    MATCH (u:HeadcountUser {id: id}) WHERE u.plays IS NOT NULL
    RETURN collect([id, u.plays])
"""
_READ_PLAYED = """
    MATCH (u:HeadcountUser {id: $id}) WHERE coalesce(u.state, 0) / 2 % 2 = 0
    RETURN coalesce(u.plays, []), coalesce(u.times, [])
"""


class Appended(NamedTuple):
    """What an append did with one user's games: the user's state, the place of each game, which of them are new."""

    state: int
    ordinals: dict[int, int]
    new: set[int]


async def append(
    transaction: Transaction, games: dict[int, list[tuple[int, int]]], *, tell: bool
) -> dict[int, Appended]:
    """Append each user's games unless they are there; creates the users, and leaves deleted ones alone.

    Args:
        transaction: the write transaction.
        games: user to distinct numbers with their times, in the order of the log.
        tell: one PLAY row in the outbox for each that is new, and the places of those that are not.
    """
    rows = []
    for user_id, timed in sorted(games.items()):
        numbers, times = [number for number, _ in timed], [at_ms for _, at_ms in timed]
        outbox = transaction.ids.take(len(timed)) if tell else 0
        rows.append({"user": user_id, "games": numbers, "times": times, "outbox": outbox})
    ((answers,),) = await transaction.run(_APPEND, rows=rows, tell=tell)
    appended: dict[int, Appended] = {}
    for user_id, state, length, fresh, known in answers:
        new = [games[user_id][place][0] for place in fresh]
        ordinals = dict(known)
        ordinals.update((number, length + 1 + place) for place, number in enumerate(new))
        appended[user_id] = Appended(state, ordinals, set(new))
        if tell and new:
            transaction.told = True
    return appended


async def record_plays(
    transaction: Transaction, plays: Sequence[Play], numbers: GameNumbers
) -> list[RecordedPlay | Exception]:
    """Append each game to its user's log unless it is there, in order: of equal plays the earlier is first."""
    known = await numbers.find(transaction, {play.game_id for play in plays})
    games: dict[int, dict[int, int]] = {}
    for user_id, game_id in plays:
        if game_id in known:
            games.setdefault(user_id, {})[known[game_id]] = transaction.now_ms
    appended = await append(transaction, {user: list(timed.items()) for user, timed in games.items()}, tell=True)
    states = {user_id: user.state for user_id, user in appended.items()}
    others = {user_id for user_id, _ in plays} - states.keys()
    if others:  # all of their games are unknown: they are looked up and not made
        states |= {user_id: user.state for user_id, user in (await lock_users(transaction, others)).items()}
    answers: list[RecordedPlay | Exception] = []
    for user_id, game_id in plays:
        number = known.get(game_id)
        if is_deleted(states.get(user_id, 0)):
            answers.append(UserDeletedError(user_id))
        elif number is None:
            answers.append(UnknownGameError(game_id))
        else:
            _, ordinals, new = appended[user_id]
            answers.append(RecordedPlay(number in new, ordinals[number]))
            new.discard(number)
    return answers


def pack(numbers: Sequence[int]) -> bytes:
    """Game numbers as the packed log that views read."""
    return np.array(numbers, dtype="<u4").tobytes()


async def read_packed_logs(database: Database, user_ids: Collection[int]) -> dict[int, bytes]:
    """Packed logs by user, users without plays left out. A deleted user's log is still there: views take it back."""
    ((rows,),) = await database.run(_READ_LOGS, ids=list(user_ids))
    return {user_id: pack(numbers) for user_id, numbers in rows}


async def read_played_games(database: Database, user_id: int) -> list[PlayedGame]:
    """A user's log with its times, oldest first; none for a deleted user."""
    found = await database.run(_READ_PLAYED, id=user_id)
    return [PlayedGame(*entry) for numbers, times in found for entry in zip(numbers, times, strict=True)]
