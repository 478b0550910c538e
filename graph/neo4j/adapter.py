"""`Neo4jGraph`: the truth in a Neo4j database, written by any number of processes on any number of machines."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from graph.changes import Play, UserChange, block_change, friendship_change
from graph.group_commit import GroupCommit
from graph.neo4j import friendships, games, imports, outbox, plays, seen, totals, users
from graph.neo4j.batch import Write, run_writes
from graph.neo4j.database import Database
from graph.neo4j.games import GameNumbers
from graph.neo4j.outbox_ids import OutboxIds
from graph.neo4j.schema import open_truth
from graph.neo4j.transaction import Transaction
from graph.neo4j.writer import Committed, Writer
from graph.query_count import count_query
from graph.social_graph import (
    Catalogue,
    Deletions,
    Friendship,
    FriendshipRow,
    Game,
    GameRow,
    GraphTotals,
    OutboxRow,
    PlayedGame,
    PlayRow,
    RecordedPlay,
    SeenLog,
    TruthUnavailableError,
    TruthUnreachableError,
    User,
    UserPage,
    UserRow,
)
from graph.visibility import EdgeFlag, UserFlag, Visibility, version_of

Answer = TypeVar("Answer")

#: A start asks a server that does not answer for this long, since the two may start together.
START_SECONDS = 10.0
START_WAITS_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)
#: A transaction costs some round trips however few rows it has, so its rows wait a moment for company.
GATHER_SECONDS = 0.002
MAX_ROWS = 512
#: A batch of an import may take this long on a busy server.
IMPORT_SECONDS = 60.0


class Neo4jGraph:
    """The Neo4j adapter of `graph.social_graph.SocialGraph`, which documents the methods.

    Args:
        uri: `bolt://` for one server, `neo4j://` for a cluster (`+s` with TLS).
        user: name of the user.
        password: theirs; None where the server asks for none.
        database: name of the database. Others' data in it is not touched.
        fanout_max_friends: with more friendships than this a user's plays are pulled and not pushed. It is kept in the
            truth: opening it with another limit sets and clears the flags of those concerned.
        clock: the server's time, Unix seconds.
        start_seconds: how long `open` waits for a server that does not answer.
    """

    def __init__(
        self,
        uri: str,
        *,
        user: str = "neo4j",
        password: str | None = None,
        database: str = "neo4j",
        fanout_max_friends: int = 2000,
        clock: Callable[[], float] = time.time,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._database = Database(uri, user, password, database)
        self._fanout_max_friends = fanout_max_friends
        self._clock = clock
        self._start_seconds = start_seconds
        self._truth_id = ""
        self._numbers = GameNumbers()
        self._listeners: list[Callable[[], None]] = []
        self._commits: GroupCommit[Write, Any] = GroupCommit(
            self._commit, max_rows=MAX_ROWS, gather_seconds=GATHER_SECONDS
        )
        ids = OutboxIds()
        # What the relay and the workers write, and what an import does, keeps no play waiting.
        self._writer = Writer(self._database, clock, ids)
        self._outbox_writer = Writer(self._database, clock, ids)
        self._import_writer = Writer(self._database, clock, ids, query_seconds=IMPORT_SECONDS)

    @property
    def truth_id(self) -> str:
        return self._truth_id

    async def open(self) -> None:
        self._database.open()
        try:
            await self._start()
        except BaseException:
            await self._database.close()
            raise

    async def close(self) -> None:
        await self._commits.close()
        if self._truth_id:
            for writer in self._writers():
                with contextlib.suppress(TruthUnavailableError):  # their nodes are dropped later
                    await writer.leave()
        await self._database.close()

    def on_commit(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def save_games(self, rows: Sequence[GameRow]) -> list[Game]:
        saved: list[Game] = await self._write(lambda transaction: games.save_games(transaction, rows))
        return saved

    async def catalogue(self, since: int = 0) -> Catalogue:
        count_query()
        catalogue = await games.read_catalogue(self._database, self._truth_id, since)
        self._numbers.learn(catalogue.changed)
        return catalogue

    async def save_users(self, rows: Sequence[UserRow]) -> None:
        await self._write(lambda transaction: users.save_users(transaction, rows))

    async def users(self, user_ids: Collection[int]) -> dict[int, User]:
        count_query()
        return await users.read_users(self._database, user_ids)

    async def user_state(self, user_id: int) -> int:
        count_query()
        return await users.read_state(self._database, user_id)

    async def set_activity_hidden(self, user_id: int, hidden: bool) -> bool:
        changed: bool = await self._write(UserChange(user_id, UserFlag.HIDDEN, hidden))
        return changed

    async def delete_user(self, user_id: int) -> bool:
        changed: bool = await self._write(UserChange(user_id, UserFlag.DELETED, True))
        return changed

    async def deletions(self, since: int = 0) -> Deletions:
        count_query()
        return await users.read_deletions(self._database, since)

    async def record_play(self, user_id: int, game_id: int) -> RecordedPlay:
        recorded: RecordedPlay = await self._write(Play(user_id, game_id))
        return recorded

    async def play_logs(self, user_ids: Collection[int]) -> dict[int, bytes]:
        count_query()
        return await plays.read_packed_logs(self._database, user_ids)

    async def played_games(self, user_id: int) -> list[PlayedGame]:
        count_query()
        return await plays.read_played_games(self._database, user_id)

    async def set_friendship(self, user_id: int, friend_id: int, friends: bool) -> Friendship:
        edge = await self._write(friendship_change(user_id, friend_id, friends))
        return Friendship(bool(edge.state & EdgeFlag.FRIENDS), version_of(edge.state))

    async def block(self, user_id: int, other_id: int, blocked: bool) -> bool:
        edge = await self._write(block_change(user_id, other_id, blocked))
        changed: bool = edge.changed
        return changed

    async def friends(self, user_ids: Collection[int]) -> dict[int, list[int]]:
        count_query()
        return await friendships.read_friends(self._database, user_ids)

    async def friend_page(self, user_id: int, first: int, after_id: int = 0) -> UserPage:
        count_query()
        return await friendships.read_friend_page(self._database, user_id, first, after_id)

    async def blocked_page(self, user_id: int, first: int, after_id: int = 0) -> UserPage:
        count_query()
        return await friendships.read_blocked_page(self._database, user_id, first, after_id)

    async def visibilities(self, viewer_id: int, owner_ids: Collection[int]) -> dict[int, Visibility]:
        count_query()
        return await seen.read_visibilities(self._database, viewer_id, owner_ids)

    async def seen_logs(self, viewer_id: int, owner_ids: Collection[int] | None = None) -> dict[int, SeenLog]:
        count_query()
        if owner_ids is None:
            return await seen.read_seen_logs(self._database, viewer_id)
        return await seen.read_seen_logs_of(self._database, viewer_id, owner_ids)

    async def seen_owners(self, viewer_id: int) -> dict[int, int]:
        count_query()
        return await seen.read_seen_owners(self._database, viewer_id)

    async def invisible_users(self) -> dict[int, int]:
        count_query()
        return await users.read_invisible_users(self._database)

    async def pulled_logs(self) -> dict[int, int]:
        count_query()
        return await seen.read_pulled_logs(self._database)

    async def outbox(self, limit: int) -> list[OutboxRow]:
        count_query()
        return await outbox.read_outbox(self._database, limit)

    async def mark_published(self, row_ids: Collection[int]) -> None:
        await self._write_outbox(lambda transaction: outbox.mark_published(transaction, row_ids))

    async def acknowledge(self, row_ids: Collection[int]) -> int:
        return await self._write_outbox(lambda transaction: outbox.acknowledge(transaction, row_ids))

    async def acknowledged_batch(self) -> int:
        count_query()
        return await outbox.read_acknowledged_batch(self._database)

    async def unacknowledge_after(self, batch: int) -> int | None:
        return await self._write_outbox(lambda transaction: outbox.unacknowledge_after(transaction, batch))

    async def import_rows(
        self,
        kind: Literal["games", "users", "friends", "plays"],
        rows: Sequence[GameRow] | Sequence[UserRow] | Sequence[FriendshipRow] | Sequence[PlayRow],
    ) -> Mapping[int, str]:
        count_query()
        work = partial(imports.import_batch, numbers=self._numbers, kind=kind, rows=rows)
        return self._told(await self._import_writer.transaction(work)).answer

    async def totals(self) -> GraphTotals:
        count_query()
        return await totals.read_totals(self._database)

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._start_seconds
        waits = list(START_WAITS_SECONDS)
        while True:
            try:
                self._truth_id = await open_truth(self._database)
                for writer in self._writers():
                    writer.truth_id = self._truth_id
                await self._writer.transaction(partial(friendships.set_limit, most=self._fanout_max_friends))
            except TruthUnreachableError:
                wait = waits.pop(0) if len(waits) > 1 else waits[0]
                if loop.time() + wait > deadline:
                    raise
                await asyncio.sleep(wait)
            else:
                return

    def _writers(self) -> tuple[Writer, ...]:
        return (self._writer, self._outbox_writer, self._import_writer)

    async def _write(self, write: Write) -> Any:
        count_query()
        return await self._commits.submit(write)

    async def _write_outbox(self, work: Callable[[Transaction], Awaitable[Answer]]) -> Answer:
        count_query()
        return (await self._outbox_writer.transaction(work)).answer

    async def _commit(self, writes: Sequence[Write]) -> Sequence[Any]:
        work = partial(run_writes, writes=writes, numbers=self._numbers)
        return self._told(await self._writer.transaction(work)).answer

    def _told(self, committed: Committed[Answer]) -> Committed[Answer]:
        if committed.told:
            loop = asyncio.get_running_loop()
            for listener in self._listeners:
                loop.call_soon(listener)  # not called from here: what it raises is not the failure of a commit
        return committed
