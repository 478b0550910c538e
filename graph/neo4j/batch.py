"""The writes of many callers in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import TypeAlias

from graph.changes import EdgeChange, Play, UserChange
from graph.neo4j.friendships import change_edges
from graph.neo4j.games import GameNumbers
from graph.neo4j.plays import record_plays
from graph.neo4j.transaction import Transaction
from graph.neo4j.users import change_users, lock_users
from graph.social_graph import GraphError

#: A write that can share a transaction. Those of the first three kinds are written many at a time.
Write: TypeAlias = Play | EdgeChange | UserChange | Callable[[Transaction], Awaitable[object]]


async def run_writes(transaction: Transaction, writes: Sequence[Write], numbers: GameNumbers) -> list[object]:
    """Run writes in order, neighbours of one kind together. An answer that is an exception is its caller's own."""
    runs = [list(neighbours) for _, neighbours in groupby(writes, key=type)]
    if len(runs) > 1:
        # Each run locks its users by ascending id; several runs would not, and could wait for each other crosswise.
        await lock_users(transaction, {user_id for write in writes for user_id in _users_of(write)})
    answers: list[object] = []
    for run in runs:
        if isinstance(run[0], Play):
            answers += await record_plays(transaction, [write for write in run if isinstance(write, Play)], numbers)
        elif isinstance(run[0], EdgeChange):
            answers += await change_edges(transaction, [write for write in run if isinstance(write, EdgeChange)])
        elif isinstance(run[0], UserChange):
            answers += await change_users(transaction, [write for write in run if isinstance(write, UserChange)])
        else:
            answers += [await _run_alone(transaction, write) for write in run if callable(write)]
        await transaction.write_outbox()  # rows have their ids in the order of the writes
    return answers


def _users_of(write: Write) -> tuple[int, ...]:
    match write:
        case Play() | UserChange():
            return (write.user_id,)
        case EdgeChange():
            return (write.low, write.high)
        case _:
            return ()


async def _run_alone(transaction: Transaction, write: Callable[[Transaction], Awaitable[object]]) -> object:
    try:
        return await write(transaction)
    except GraphError as error:  # raised before anything was written
        return error
