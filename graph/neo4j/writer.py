"""Write transactions one after the other, whose outcome is always known.

A connection that is lost while a commit runs leaves its outcome open. So each writer has a node of its own, and every
transaction of it first locks the node, goes on only where no later turn was there, and leaves its turn as `done`. After
a lost commit the next turn takes the lock, which it gets only once the lost transaction is over, and reads whether it
was done; from then on the lost one could not begin any more. Nobody else's node is touched.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from graph.neo4j.database import QUERY_SECONDS, SILENCE_SECONDS, Database, Retries
from graph.neo4j.failures import STORE_ERRORS, told_unavailable
from graph.neo4j.outbox_ids import OutboxIds
from graph.neo4j.transaction import Transaction
from graph.social_graph import TruthReplacedError, TruthUnavailableError, TruthUnreachableError

Answer = TypeVar("Answer")

#: How long the outcome of a lost commit is asked for, before its callers are told that nobody knows.
SETTLE_SECONDS = 10.0
#: Nodes of writers that ended without a close are dropped after so long.
FORGOTTEN_MS = 7 * 86_400_000

_BEGIN = """
    MATCH (t:HeadcountTruth {only: 1}) WHERE t.id = $truth
    MERGE (locked:HeadcountWriter {id: $writer}) SET locked.id = locked.id
    WITH DISTINCT coalesce(t.fanout_max_friends, 0) AS fanout_max_friends
    MATCH (w:HeadcountWriter {id: $writer}) WHERE coalesce(w.turn, 0) < $turn
    SET w.turn = $turn, w.done = $turn, w.at = timestamp()
    RETURN fanout_max_friends
"""
_SETTLE = """
    MERGE (locked:HeadcountWriter {id: $writer}) SET locked.id = locked.id
    WITH DISTINCT 1 AS locked
    MATCH (w:HeadcountWriter {id: $writer})
    SET w.turn = $turn, w.at = timestamp()
    RETURN w.done
"""
_READ_TRUTH_ID = "MATCH (t:HeadcountTruth {only: 1}) RETURN t.id"
# By the server's clock alone: a process whose clock is ahead would drop the nodes of others that write.
_LEAVE = "MATCH (w:HeadcountWriter) WHERE w.id = $writer OR w.at < timestamp() - $kept DETACH DELETE w"


class Committed(NamedTuple, Generic[Answer]):
    """What a transaction answered, and whether it wrote outbox rows."""

    answer: Answer
    told: bool


class Writer:
    """Runs write transactions, one at a time.

    Args:
        database: where.
        clock: the server's time, Unix seconds.
        ids: of the outbox rows of this process.
        query_seconds: the server ends a transaction that takes longer.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float],
        ids: OutboxIds,
        *,
        query_seconds: float = QUERY_SECONDS,
    ) -> None:
        self.truth_id = ""
        self._database = database
        self._clock = clock
        self._ids = ids
        self._query_seconds = query_seconds
        self._id = uuid.uuid4().hex
        self._turn = 0
        self._one_at_a_time = asyncio.Lock()

    async def transaction(self, work: Callable[[Transaction], Awaitable[Answer]]) -> Committed[Answer]:
        """Run `work` in one transaction together with the outbox rows that it tells, and again where that helps.

        Raises:
            TruthUnavailableError, TruthReplacedError: nothing was kept, but where the text says that nobody knows.
        """
        return await self._database.apart(self._alone(work))

    async def leave(self) -> None:
        """Remove the writer's node, and those that others left behind."""
        if self._turn:
            await self._database.run(_LEAVE, writer=self._id, kept=FORGOTTEN_MS)

    async def _alone(self, work: Callable[[Transaction], Awaitable[Answer]]) -> Committed[Answer]:
        async with self._one_at_a_time:
            retries = Retries()
            while True:
                attempt = Attempt(work)
                try:
                    async with asyncio.timeout(self._query_seconds + SILENCE_SECONDS - QUERY_SECONDS):
                        return await self._try(attempt)
                except STORE_ERRORS as error:
                    if attempt.committing and await self._was_done(attempt.turn):
                        return attempt.committed
                    if not await retries.wait(error, answered=attempt.committing):
                        raise told_unavailable(self._database.uri, self._database.name, error) from error

    async def _try(self, attempt: Attempt[Answer]) -> Committed[Answer]:
        attempt.turn = self._next_turn()
        now_ms = int(self._clock() * 1000)
        async with (
            self._database.session() as session,
            await session.begin_transaction(timeout=self._query_seconds) as begun,
        ):
            transaction = Transaction(begun, now_ms, self._ids)
            begin = {"truth": self.truth_id, "writer": self._id, "turn": attempt.turn}
            begun_rows = await transaction.run(_BEGIN, **begin)
            if not begun_rows:
                await self._check_truth(transaction)
            ((transaction.fanout_max_friends,),) = begun_rows
            answer = await attempt.work(transaction)
            await transaction.write_outbox()
            attempt.committed = Committed(answer, transaction.told)
            attempt.committing = True
            await begun.commit()
        return attempt.committed

    async def _check_truth(self, transaction: Transaction) -> None:
        truth = await transaction.run(_READ_TRUTH_ID)
        if truth != [[self.truth_id]]:
            raise TruthReplacedError(f"Neo4j at {self._database.uri}: another truth was put in its place")
        raise TruthUnavailableError(f"Neo4j at {self._database.uri}: a writer's turn was taken")

    async def _was_done(self, turn: int) -> bool:
        """Whether a transaction whose commit was lost is kept. Returns only once nothing can change that."""
        retries = Retries(SETTLE_SECONDS, SETTLE_SECONDS)
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    done = await self._settle()
            except STORE_ERRORS as error:
                if not await retries.wait(error):
                    raise TruthUnreachableError(
                        f"Neo4j at {self._database.uri}: was lost during a commit; nobody knows whether it was kept"
                    ) from error
            else:
                return done == turn

    async def _settle(self) -> int:
        now_ms = int(self._clock() * 1000)
        async with self._database.session() as session, await session.begin_transaction(timeout=QUERY_SECONDS) as begun:
            transaction = Transaction(begun, now_ms, self._ids)
            ((done,),) = await transaction.run(_SETTLE, writer=self._id, turn=self._next_turn())
            await begun.commit()
        return done or 0

    def _next_turn(self) -> int:
        self._turn += 1
        return self._turn


class Attempt(Generic[Answer]):
    """One try of a transaction, and how far it came."""

    def __init__(self, work: Callable[[Transaction], Awaitable[Answer]]) -> None:
        self.work = work
        self.turn = 0
        self.committing = False
        self.committed: Committed[Answer]
