"""Friends whose plays are pulled: before a page of a view is answered, the view catches up with their logs.

A cursor is compared with the length that the log had a moment ago (`signals.pulled_logs`). Mostly it stands there, and
the page costs nothing more. Where it stands behind, the log is read and CATCHUP runs, and the page is read again.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

import structlog

from graph.social_graph import GraphError, SocialGraph, TruthUnavailableError
from signals.pulled_logs import PulledLogs
from signals.views import FriendViews, Outcome

log = structlog.get_logger(__name__)

#: Logs are kept because all the many friends of a user who played need the same one in the next seconds.
KEPT_LOG_BYTES = 16 << 20
#: After the lengths could not be read from the truth, this long goes by before it is tried again.
TRUTH_RESTS_SECONDS = 1.0


class _ReadLog(NamedTuple):
    """A log as this process read it; `asked`, by its monotonic clock, is before the read."""

    log: bytes
    asked: float

    @property
    def length(self) -> int:
        return len(self.log) // 4


class PulledFriends:
    """Compares and catches up. One for the process.

    Args:
        graph: the truth.
        views: the views that catch up.
        lengths: how long the pulled logs are.
        wait_seconds: how long a page waits for the truth where the published lengths are late.
        stale_max_seconds: the oldest lengths to go by while the truth does not answer either.
        kept_log_bytes: how much of the logs is kept in memory.
        monotonic: this process's clock, in seconds.
    """

    def __init__(
        self,
        graph: SocialGraph,
        views: FriendViews,
        lengths: PulledLogs,
        *,
        wait_seconds: float,
        stale_max_seconds: float,
        kept_log_bytes: int = KEPT_LOG_BYTES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._graph = graph
        self._views = views
        self._lengths = lengths
        self._wait_seconds = wait_seconds
        self._stale_max_seconds = stale_max_seconds
        self._kept_log_bytes = kept_log_bytes
        self._monotonic = monotonic
        self._logs: OrderedDict[int, _ReadLog] = OrderedDict()
        self._log_bytes = 0
        self._truth_rests_until = float("-inf")
        self._length_reads: set[asyncio.Task[None]] = set()  # one or none
        self._log_reads: dict[int, asyncio.Task[None]] = {}
        self._catch_ups: dict[int, asyncio.Task[None]] = {}

    async def age_seconds(self, viewer_id: int, cursors: Mapping[int, int]) -> float | None:
        """How long ago the cursors of a page stood at the ends of their logs.

        Args:
            viewer_id: whose view.
            cursors: owner to cursor, as PAGE returned them.

        Returns:
            Seconds; None where some stood behind: the view has caught up now, or left. Read the page again.

        Raises:
            GraphError: the truth cannot be read and is needed.
            redis.exceptions.RedisError: the view could not be written.
        """
        if self._lengths.late:
            await self._read_lengths()
        ages = {owner_id: self._age(owner_id, cursor) for owner_id, cursor in cursors.items()}
        behind = {owner_id: cursors[owner_id] for owner_id, age in ages.items() if age is None}
        if not behind:
            return max(age for age in ages.values() if age is not None)
        flight = self._catch_ups.get(viewer_id)
        if flight is None:
            flight = asyncio.create_task(self._catch_up(viewer_id, behind), name=f"pull-{viewer_id}")
            self._catch_ups[viewer_id] = flight
            flight.add_done_callback(partial(self._caught_up, viewer_id))
        # Whoever joined another's flight may need more than that one does: the page that is read again will tell.
        await asyncio.shield(flight)
        return None

    async def close(self) -> None:
        """Wait for what is under way."""
        while tasks := [*self._catch_ups.values(), *self._log_reads.values(), *self._length_reads]:
            await asyncio.wait(tasks)

    def _caught_up(self, viewer_id: int, flight: asyncio.Task[None]) -> None:
        del self._catch_ups[viewer_id]
        if not flight.cancelled():
            flight.exception()  # seen, also when all who waited for it went away

    def _age(self, owner_id: int, cursor: int) -> float | None:
        """How long ago a cursor stood at the end of the owner's log; None where it is behind, or nobody knows."""
        published, read = self._lengths.length(owner_id), self._logs.get(owner_id)
        if published is None:
            # Pulled by the view and not by the truth's last answer: one of them is news to the other. Until they agree
            # the log itself is read, as often as lengths would be.
            return self._read_age(read) if read is not None and self._is_enough(owner_id, cursor) else None
        if cursor < published:
            return None
        # Others may have caught up since the lengths were read. A log in memory that is as long says so; else the log
        # is read: a cursor past its end has no place in a view.
        return self._lengths.age_seconds if cursor == published or self._is_enough(owner_id, cursor) else None

    def _is_enough(self, owner_id: int, cursor: int) -> bool:
        """Whether the log in memory is as long as is known of it, and no shorter than the cursor.

        What a log holds it holds for good, so such a log is as right as one that is read now.
        """
        published, read = self._lengths.length(owner_id), self._logs.get(owner_id)
        if read is None or read.length < cursor:
            return False
        return read.length >= published if published is not None else self._read_age(read) <= self._lengths.age_seconds

    def _read_age(self, read: _ReadLog) -> float:
        return self._monotonic() - read.asked

    async def _catch_up(self, viewer_id: int, cursors: Mapping[int, int]) -> None:
        """Bring a view to the ends of some logs, or evict it where it stands past one."""
        for _ in range(2):  # the first may join a read that began before the lengths were what they are
            await self._read_logs([owner for owner, cursor in cursors.items() if not self._is_enough(owner, cursor)])
        past = await self._catch_up_once(viewer_id, cursors)
        if past:
            # Another process may have read an owner's next play and been quicker: read it here too.
            await self._read_now(past)
            past = await self._catch_up_once(viewer_id, past)
        if past:
            log.warning("view_past_log_end", viewer_id=viewer_id, owner_ids=past)
            await self._views.evict([viewer_id])

    async def _catch_up_once(self, viewer_id: int, owner_ids: Collection[int]) -> list[int]:
        """Run CATCHUP with the logs in memory; returns the owners whose log the view's cursor stands past."""
        logs = {owner_id: self._logs[owner_id].log for owner_id in owner_ids if owner_id in self._logs}
        outcomes = await asyncio.gather(*(self._views.catch_up(viewer_id, *pair) for pair in logs.items()))
        return [owner_id for owner_id, outcome in zip(logs, outcomes, strict=True) if outcome == Outcome.PAST_LOG_END]

    # What this process reads from the truth, once for all who wait for it

    async def _read_logs(self, owner_ids: Collection[int]) -> None:
        new = [owner_id for owner_id in owner_ids if owner_id not in self._log_reads]
        if new:
            task = asyncio.create_task(self._read_now(new), name="pulled-logs")
            self._log_reads |= dict.fromkeys(new, task)
            task.add_done_callback(lambda _: [self._log_reads.pop(owner_id, None) for owner_id in new])
        await asyncio.gather(*{self._log_reads[owner_id] for owner_id in owner_ids})

    async def _read_now(self, owner_ids: Collection[int]) -> None:
        asked = self._monotonic()
        logs = await self._graph.play_logs(owner_ids)
        for owner_id in owner_ids:
            read = self._logs.pop(owner_id, None)
            if read is None or read.asked < asked:
                self._log_bytes += 4 * (len(logs.get(owner_id, b"")) // 4 - (0 if read is None else read.length))
                read = _ReadLog(logs.get(owner_id, b""), asked)
            self._logs[owner_id] = read
        while self._log_bytes > self._kept_log_bytes and len(self._logs) > len(owner_ids):
            _, dropped = self._logs.popitem(last=False)
            self._log_bytes -= 4 * dropped.length

    async def _read_lengths(self) -> None:
        """Read all lengths from the truth, since nobody publishes them. They may be old while the truth is away too.

        Raises:
            TruthUnavailableError: it is away, and what is known is too old to go by.
        """
        if self._monotonic() >= self._truth_rests_until:
            if not self._length_reads:
                task = asyncio.create_task(self._take_lengths(), name="pulled-log-lengths")
                self._length_reads.add(task)
                task.add_done_callback(self._length_reads.discard)
            (task,) = self._length_reads
            done, _ = await asyncio.wait([task], timeout=self._wait_seconds)
            if not done:
                self._truth_rests_until = self._monotonic() + TRUTH_RESTS_SECONDS
        if self._lengths.age_seconds > self._stale_max_seconds:
            raise TruthUnavailableError("how long the logs of pulled friends are is not known")

    async def _take_lengths(self) -> None:
        asked = self._monotonic()
        try:
            self._lengths.take(await self._graph.pulled_logs(), asked)
        except GraphError as error:
            log.warning("pulled_logs_not_read", reason=repr(error))
            self._truth_rests_until = self._monotonic() + TRUTH_RESTS_SECONDS
