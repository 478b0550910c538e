"""`SQLiteGraph`: the truth in one file, for one machine, written by any number of its processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

from graph.changes import Play, UserChange, block_change, friendship_change
from graph.group_commit import GroupCommit
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
    User,
    UserPage,
    UserRow,
)
from graph.sqlite import degrees, friendships, games, imports, outbox, plays, seen, totals, users
from graph.sqlite.failures import told_as_unavailable
from graph.sqlite.readers import Readers
from graph.sqlite.transaction import Transaction
from graph.sqlite.truth_file import TruthFile
from graph.sqlite.writer import Committed, Write, Writer
from graph.visibility import EdgeFlag, UserFlag, Visibility, version_of

#: After an imported batch the write lock rests this long, so that other processes get their turn.
IMPORT_REST_SECONDS = 0.005


class SQLiteGraph:
    """The SQLite adapter of `graph.social_graph.SocialGraph`, which documents the methods.

    Args:
        path: the database file; made by `open` together with its folder.
        fanout_max_friends: with more friendships than this a user's plays are pulled and not pushed. It is kept in the
            truth: opening it with another limit sets and clears the flags of those concerned.
        clock: the server's time, Unix seconds.
    """

    def __init__(
        self, path: Path | str, *, fanout_max_friends: int = 2000, clock: Callable[[], float] = time.time
    ) -> None:
        self._file = TruthFile(Path(path))
        self._fanout_max_friends = fanout_max_friends
        self._clock = clock
        self._listeners: list[Callable[[], None]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="truth-writer")
        self._readers = Readers(self._file)
        self._commits: GroupCommit[Write, Any] = GroupCommit(self._commit)
        self._writer: Writer | None = None

    @property
    def truth_id(self) -> str:
        return self._file.truth_id

    async def open(self) -> None:
        def open_file() -> Writer:
            self._file.open()
            with told_as_unavailable(self._file.path):
                writer = Writer(self._file, self._clock)
            try:
                writer.transaction(lambda transaction: degrees.set_limit(transaction, self._fanout_max_friends))
            except BaseException:
                writer.close()
                raise
            return writer

        self._writer = await asyncio.get_running_loop().run_in_executor(self._thread, open_file)

    async def close(self) -> None:
        await self._commits.close()
        await self._readers.close()
        writer, self._writer = self._writer, None
        if writer is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, writer.close)
        await asyncio.to_thread(self._thread.shutdown)

    def on_commit(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def save_games(self, rows: Sequence[GameRow]) -> list[Game]:
        saved: list[Game] = await self._write(lambda transaction: games.save_games(transaction, rows))
        return saved

    async def catalogue(self, since: int = 0) -> Catalogue:
        truth_id, catalogue = await self._readers.read(lambda connection: games.read_catalogue(connection, since))
        self._file.check_in_place()
        self._file.check_truth_id(truth_id)
        return catalogue

    async def save_users(self, rows: Sequence[UserRow]) -> None:
        await self._write(lambda transaction: users.save_users(transaction, rows))

    async def users(self, user_ids: Collection[int]) -> dict[int, User]:
        return await self._readers.read(lambda connection: users.read_users(connection, user_ids))

    async def user_state(self, user_id: int) -> int:
        states = await self._readers.read(lambda connection: users.read_states(connection, (user_id,)))
        return states.get(user_id, 0)

    async def set_activity_hidden(self, user_id: int, hidden: bool) -> bool:
        changed: bool = await self._write(UserChange(user_id, UserFlag.HIDDEN, hidden))
        return changed

    async def delete_user(self, user_id: int) -> bool:
        changed: bool = await self._write(UserChange(user_id, UserFlag.DELETED, True))
        return changed

    async def deletions(self, since: int = 0) -> Deletions:
        return await self._readers.read(lambda connection: users.read_deletions(connection, since))

    async def record_play(self, user_id: int, game_id: int) -> RecordedPlay:
        recorded: RecordedPlay = await self._write(Play(user_id, game_id))
        return recorded

    async def play_logs(self, user_ids: Collection[int]) -> dict[int, bytes]:
        return await self._readers.read(lambda connection: plays.read_packed_logs(connection, user_ids))

    async def played_games(self, user_id: int) -> list[PlayedGame]:
        return await self._readers.read(lambda connection: plays.read_played_games(connection, user_id))

    async def set_friendship(self, user_id: int, friend_id: int, friends: bool) -> Friendship:
        edge = await self._write(friendship_change(user_id, friend_id, friends))
        return Friendship(bool(edge.state & EdgeFlag.FRIENDS), version_of(edge.state))

    async def block(self, user_id: int, other_id: int, blocked: bool) -> bool:
        edge = await self._write(block_change(user_id, other_id, blocked))
        changed: bool = edge.changed
        return changed

    async def friends(self, user_ids: Collection[int]) -> dict[int, list[int]]:
        return await self._readers.read(lambda connection: friendships.read_friends(connection, user_ids))

    async def friend_page(self, user_id: int, first: int, after_id: int = 0) -> UserPage:
        return await self._readers.read(
            lambda connection: friendships.read_friend_page(connection, user_id, first, after_id)
        )

    async def blocked_page(self, user_id: int, first: int, after_id: int = 0) -> UserPage:
        return await self._readers.read(
            lambda connection: friendships.read_blocked_page(connection, user_id, first, after_id)
        )

    async def visibilities(self, viewer_id: int, owner_ids: Collection[int]) -> dict[int, Visibility]:
        return await self._readers.read(lambda connection: seen.read_visibilities(connection, viewer_id, owner_ids))

    async def seen_logs(self, viewer_id: int, owner_ids: Collection[int] | None = None) -> dict[int, SeenLog]:
        if owner_ids is None:
            return await self._readers.read(lambda connection: seen.read_seen_logs(connection, viewer_id))
        return await self._readers.read(lambda connection: seen.read_seen_logs_of(connection, viewer_id, owner_ids))

    async def seen_owners(self, viewer_id: int) -> dict[int, int]:
        return await self._readers.read(lambda connection: seen.read_seen_owners(connection, viewer_id))

    async def invisible_users(self) -> dict[int, int]:
        return await self._readers.read(users.read_invisible_users)

    async def pulled_logs(self) -> dict[int, int]:
        return await self._readers.read(degrees.read_pulled_logs)

    async def outbox(self, limit: int) -> list[OutboxRow]:
        return await self._readers.read(lambda connection: outbox.read_outbox(connection, limit))

    async def mark_published(self, row_ids: Collection[int]) -> None:
        await self._write(lambda transaction: outbox.mark_published(transaction, row_ids))

    async def acknowledge(self, row_ids: Collection[int]) -> int:
        batch: int = await self._write(lambda transaction: outbox.acknowledge(transaction, row_ids))
        return batch

    async def acknowledged_batch(self) -> int:
        return await self._readers.read(outbox.read_acknowledged_batch)

    async def unacknowledge_after(self, batch: int) -> int | None:
        rows: int | None = await self._write(lambda transaction: outbox.unacknowledge_after(transaction, batch))
        return rows

    async def import_rows(
        self,
        kind: Literal["games", "users", "friends", "plays"],
        rows: Sequence[GameRow] | Sequence[UserRow] | Sequence[FriendshipRow] | Sequence[PlayRow],
    ) -> Mapping[int, str]:
        # A transaction of its own: nobody else's write may fall with a bad row, or wait for company of this length.
        count_query()
        work: Callable[[Transaction], object] = partial(imports.import_batch, kind=kind, rows=rows)
        committed = await self._in_writer_thread(lambda writer: writer.transaction(work))
        await asyncio.sleep(IMPORT_REST_SECONDS)
        bad: Mapping[int, str] = committed.answer  # type: ignore[assignment]  # what each import function answers
        return bad

    async def totals(self) -> GraphTotals:
        return await self._readers.read(totals.read_totals)

    async def _write(self, write: Write) -> Any:
        count_query()
        return await self._commits.submit(write)

    async def _commit(self, writes: Sequence[Write]) -> Sequence[Any]:
        committed = await self._in_writer_thread(lambda writer: writer.commit(writes))
        answers: Sequence[Any] = committed.answer  # type: ignore[assignment]  # a batch answers a list
        return answers

    async def _in_writer_thread(self, work: Callable[[Writer], Committed]) -> Committed:
        writer = self._writer
        if writer is None:
            raise TruthUnavailableError("the truth is not open")
        loop = asyncio.get_running_loop()
        committed = await loop.run_in_executor(self._thread, work, writer)
        if committed.told:
            for listener in self._listeners:
                loop.call_soon(listener)  # not called from here: what it raises is not the failure of a commit
        return committed
