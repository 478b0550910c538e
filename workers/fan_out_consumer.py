"""One partition's consumer: reads batches of events, has them fanned out, and acknowledges what is done.

At least once: an entry is acknowledged after everything of its event was applied, first in the truth and then here. An
entry that was not, because its handling failed or its worker died, is claimed again by whichever consumer comes by once
it has been idle for a while.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

import structlog

from events.dead_letters import DeadLetters
from events.event import PARTITIONS, Event
from events.redis_streams import Delivery, EventLog, Partition
from workers.acknowledgements import Acknowledgements
from workers.fan_out import FanOut
from workers.grace import finish, with_grace
from workers.outage import is_outage, pause_seconds

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Pace(NamedTuple):
    """How a consumer goes about it.

    `block_ms`: longest wait for an entry; less than the client's socket timeout. `claim_idle_ms`: an entry without a
    sign of life for this long is claimed. `attempts`: real failures after which an event is set aside.
    """

    batch: int = 256
    block_ms: int = 1_000
    claim_idle_ms: int = 5_000
    attempts: int = 5
    tidy_seconds: float = 30.0
    forget_after_ms: int = 600_000
    stop_seconds: float = 3.0


DEFAULT_PACE = Pace()


class Delivered(NamedTuple):
    """An entry and the event it holds."""

    delivery: Delivery
    event: Event


class FanOutConsumer:
    """Brings what one partition tells to the views."""

    def __init__(
        self,
        partition: Partition,
        fan_out: FanOut,
        dead_letters: DeadLetters,
        pace: Pace,
        acknowledgements: Acknowledgements | None,
    ) -> None:
        self._partition = partition
        self._fan_out = fan_out
        self._dead_letters = dead_letters
        self._acknowledgements = acknowledgements
        self._pace = pace
        self._claim_at = 0.0
        self._tidy_at = 0.0
        self._left_for_later: set[str] = set()
        self._log = log.bind(partition=partition.number)

    async def run(self) -> None:
        """Consume until cancelled; what was begun is finished first, for a few seconds. Holds while a store is away."""
        try:
            while True:
                deliveries = await self._held(self._next)
                if deliveries:
                    await with_grace(self._work(deliveries), self._pace.stop_seconds)
                await self._held(self._tidy)
        except asyncio.CancelledError:
            leaving = asyncio.ensure_future(self._leave())
            await finish(leaving, self._pace.stop_seconds)
            raise

    async def _next(self) -> list[Delivery]:
        """Entries that somebody left, else new ones."""
        now = asyncio.get_running_loop().time()
        if now >= self._claim_at:
            claimed = await self._partition.claim(self._pace.claim_idle_ms, self._pace.batch)
            if len(claimed) < self._pace.batch:
                self._claim_at = now + self._pace.claim_idle_ms / 5_000
            if claimed:
                return claimed
        return await self._partition.read(self._pace.batch, self._pace.block_ms)

    async def _work(self, deliveries: Sequence[Delivery]) -> None:
        async with self._kept(deliveries):
            readable: list[Delivered] = []
            unreadable: list[tuple[Delivery, Exception]] = []
            foreign: list[Delivery] = []
            for delivery in deliveries:
                if self._is_of_another_truth(delivery):
                    foreign.append(delivery)
                    continue
                try:
                    readable.append(Delivered(delivery, Event.decode(delivery.data)))
                except ValueError as error:
                    unreadable.append((delivery, error))
            if readable:
                await self._handle(readable)
            if unreadable:
                await self._held(self._fan_out.evict_all)  # nobody can say whose views it had to change
                for delivery, reason in unreadable:
                    await self._set_aside(delivery, reason, 1)
            if foreign:
                self._log.warning("events_of_another_truth_dropped", count=len(foreign))
                await self._acknowledge([], foreign)

    async def _handle(self, batch: Sequence[Delivered]) -> None:
        """Fan a batch out and acknowledge it. One that an event breaks is halved until that one stands alone."""
        failure: Exception | None = None
        try:
            await self._held(lambda: self._fan_out.handle([event for _, event in batch]))
        except Exception as error:
            failure = error
        if failure is None:
            await self._acknowledge([event.id for _, event in batch], [delivery for delivery, _ in batch])
        elif len(batch) == 1:
            await self._failed(batch[0], failure)
        else:
            half = len(batch) // 2
            await self._handle(batch[:half])
            await self._handle(batch[half:])

    async def _failed(self, delivered: Delivered, error: Exception) -> None:
        """Leave an event that failed for a later attempt, or set it aside when it has had all of them."""
        delivery, event = delivered
        attempts = await self._held(lambda: self._partition.count_failure(delivery))
        # The traceback once: a formatter takes its time, and a bug may fail every event of a kind.
        self._log.error(
            "event_failed",
            event_id=event.id,
            kind=event.kind,
            attempts=attempts,
            reason=_reason(error),
            exc_info=error if attempts == 1 else None,
        )
        if attempts < self._pace.attempts:
            self._left_for_later.add(delivery.id)
            return
        try:
            # First of all: a missing view is slow, a wrong one is wrong.
            await self._held(lambda: self._fan_out.evict_concerned(event))
        except Exception as refusal:
            self._log.error("event_not_set_aside", event_id=event.id, reason=_reason(refusal))
            self._left_for_later.add(delivery.id)
            return
        await self._set_aside(delivery, error, attempts, event)

    def _is_of_another_truth(self, delivery: Delivery) -> bool:
        """Left over in a stream from before another truth took its place: it says something else here."""
        if self._acknowledgements is None or not delivery.truth_id:
            return False
        return delivery.truth_id != self._acknowledgements.truth_id

    async def _acknowledge(self, row_ids: Sequence[int], deliveries: Sequence[Delivery]) -> None:
        """First in the truth: what is known there to be done, Redis may forget and be told again."""
        if self._acknowledgements is not None and row_ids:
            acknowledgements = self._acknowledgements
            await self._held(lambda: acknowledgements.acknowledge(row_ids))
        await self._held(lambda: self._partition.acknowledge(deliveries))

    async def _set_aside(self, delivery: Delivery, error: Exception, attempts: int, event: Event | None = None) -> None:
        reason = _reason(error)
        number = self._partition.number
        await self._held(lambda: self._dead_letters.set_aside(number, delivery, reason, attempts))
        await self._acknowledge([event.id] if event is not None else [], [delivery])
        self._left_for_later.discard(delivery.id)
        self._log.error("event_set_aside", entry=delivery.id, reason=reason, attempts=attempts)

    async def _held(self, step: Callable[[], Awaitable[T]]) -> T:
        """Take a step, as often as it needs while a store is away. What else fails is raised."""
        failures = 0
        while True:
            try:
                result = await step()
            except Exception as error:
                if not is_outage(error):
                    raise
                failures += 1
                if failures == 1:
                    self._log.warning("fan_out_held", reason=str(error))
                await asyncio.sleep(pause_seconds(failures))
            else:
                if failures:
                    self._log.info("fan_out_resumed", failures=failures)
                return result

    @asynccontextmanager
    async def _kept(self, deliveries: Sequence[Delivery]) -> AsyncIterator[None]:
        """Show signs of life for these while they are worked on, however long that takes."""
        done = asyncio.Event()
        keeper = asyncio.create_task(self._keep(deliveries, done))
        try:
            yield
        finally:
            # Told and not cancelled: before Python 3.12 asyncio.wait_for, which redis-py uses, may lose a cancellation
            # (CPython 86296), and whoever then waits for the task waits for ever.
            done.set()
            await asyncio.gather(keeper, return_exceptions=True)

    async def _keep(self, deliveries: Sequence[Delivery], done: asyncio.Event) -> None:
        while not done.is_set():
            try:
                async with asyncio.timeout(self._pace.claim_idle_ms / 3_000):
                    await done.wait()
            except TimeoutError:
                pass
            else:
                return
            try:
                await self._partition.keep(deliveries)
            except Exception as error:
                self._log.warning("entries_not_kept", reason=str(error))  # others may work on them too: harmless

    async def _tidy(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._tidy_at:
            await self._partition.tidy(self._pace.forget_after_ms)
            self._tidy_at = now + self._pace.tidy_seconds

    async def _leave(self) -> None:
        """Work on what a read that was cancelled had already been given, and be forgotten if nothing is left."""
        try:
            pending = await self._partition.own_pending(self._pace.batch)
            given = [delivery for delivery in pending if delivery.id not in self._left_for_later]
            if given:
                await self._work(given)
            await self._partition.tidy(self._pace.forget_after_ms, leaving=True)
        except Exception as error:
            self._log.warning("fan_out_left_early", reason=_reason(error))  # what is left, another consumer claims


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def consumer_name() -> str:
    """A name for this process's consumers that no other process has, nor this one after a restart."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def fan_out_jobs(
    events: EventLog,
    fan_out: FanOut,
    dead_letters: DeadLetters,
    pace: Pace = DEFAULT_PACE,
    acknowledgements: Acknowledgements | None = None,
) -> dict[str, Callable[[], Awaitable[None]]]:
    """A job for each partition, for the supervisor.

    Args:
        events: the log.
        fan_out: handles events.
        dead_letters: where events go that cannot be handled.
        pace: how consumers go about it.
        acknowledgements: of this process; None where the truth is told nothing, for tests of the log alone.
    """
    name = consumer_name()
    return {
        f"fan-out-{number}": FanOutConsumer(
            events.partition(number, name), fan_out, dead_letters, pace, acknowledgements
        ).run
        for number in range(PARTITIONS)
    }
