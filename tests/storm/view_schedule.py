"""One random schedule of everything that happens to friend-played views: the real views, cold pages and fan-out, on a
real Redis, one store call at a time, with faults; compared with plain sets.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from events.event import Event
from graph.social_graph import SocialGraph
from loaders.pulled_friends import PulledFriends
from signals.redis import SharedRedis
from signals.view import View
from signals.views import FriendViews
from tests.storm.model_graph import ModelGraph
from tests.storm.redis_snapshot import RedisSnapshot
from tests.storm.stage import Gate, Gated, Stage, worker
from tests.storm.store_calls import READS_OF_TRUTH, READS_OF_VIEWS, SLOW_CALLS, WRITES_OF_VIEWS, viewers_written
from tests.storm.view_invariants import WrongCountError, check_view
from tests.storm.view_operations import CHANGES, NUMBERS, Operation, change_truth
from tests.storm.web_process import PublishedLengths, WebProcess
from workers.fan_out import FanOut

#: Neighbours beyond 2**53: an id that passes through a double meets another's.
USERS = [2**62 + place for place in range(1, 6)]


@dataclass(eq=False)
class Delivery:
    """Events handed to a worker together; delivered again until the worker is done with them."""

    events: list[Event]
    finished: int | None = None  # when it was acknowledged, by the schedule's own count


class Schedule:
    """Runs operations, workers, readers and builders in an order that `random` chooses.

    Args:
        redis: a Redis that is empty.
        random: every choice.
        make_views: makes views for a Redis; mutants hand in one whose views break a rule.
        make_fan_out: makes the workers' fan-out for a graph and views, likewise.
        make_pulled_friends: makes what catches up with pulled friends, likewise.
        faults: whether calls are repeated, replies lost and processes killed.
        users: how many there are; few meet the same pair again and again.
        slow: the kind of call that is slow, "" for none; chosen by `random` where it is not given.
    """

    def __init__(
        self,
        redis: SharedRedis,
        random: Random,
        make_views: Callable[..., FriendViews] = FriendViews,
        make_fan_out: Callable[[SocialGraph, FriendViews], FanOut] = FanOut,
        make_pulled_friends: Callable[..., PulledFriends] = PulledFriends,
        faults: bool = True,
        users: int = len(USERS),
        slow: str | None = None,
    ) -> None:
        self.redis = redis
        self.random = random
        self.faults = faults
        self.users = USERS[:users]
        self.graph = ModelGraph(self.users)
        self.stage = Stage()
        self.real_views = make_views(redis)
        self.late_views = make_views(redis, dead_build_seconds=0)  # as though ten seconds had passed
        self.outcomes: Counter[str] = Counter()
        self.residents_compared = 0
        # A kind of call that is far slower than the rest, or single calls that hang, lead where even odds seldom do.
        self._slow = random.choice([*SLOW_CALLS, ""]) if slow is None else slow
        self._hang = random.choice((0.0, 0.1))
        self._hanging: dict[Gate, int] = {}
        self._repeats = random.choice((0.0, 0.0, 0.25))  # repeated events heal what they find, so often there are none
        self._lost_replies: list[tuple[tuple[Any, ...], Callable[[], Awaitable[Any]]]] = []
        self._last: dict[int, View | None] = {}
        self._snapshot: RedisSnapshot | None = None
        self._clock = 0
        self._deliveries: list[Delivery] = []  # all that a worker was ever handed
        self._queue: list[Delivery] = []
        self._tasks: dict[asyncio.Task[None], Delivery | None] = {}
        self._graph = cast("SocialGraph", Gated(self.graph, self.stage, READS_OF_TRUTH, self._read))
        self._views = cast(
            "FriendViews", Gated(self.real_views, self.stage, READS_OF_VIEWS | WRITES_OF_VIEWS, self._call_views)
        )
        self._fan_out = make_fan_out(self._graph, self._views)
        # Two web processes, which compete for builds and for catching up.
        parts = redis, self._graph, self._views, lambda: float(self._clock), make_pulled_friends
        self._processes = [WebProcess(*parts) for _ in range(2)]
        self._lengths = PublishedLengths(self.graph, self._processes)

    async def run(self, operations: Sequence[Operation]) -> None:
        """Run all operations, let everything come to its end, and compare every view with the truth."""
        try:
            await self._begin()
            left = list(reversed(operations))
            while left or self._queue or self._tasks or self.stage.gates:
                self._clock += 1
                await self._lengths.pass_on(self.random, 0.1, self._clock)
                choice = self.random.random()
                gates = self._quick_gates(waiting=bool(left or self._queue))
                if left and (choice < 0.25 or not (self._queue or gates)):
                    await self._operate(*left.pop())
                elif self._queue and (choice < 0.5 or not gates):
                    self._deliver()
                elif gates:
                    await self._open_or_crash(self.random.choice(gates))
                await self.stage.settle()
                self._collect()
            self.faults = False
            await self._compare_residents()
            await self._build_all()
        finally:
            await self._stop()

    async def _begin(self) -> None:
        """A world that has been there for a while: some friends, some plays, most views built."""
        for _ in range(5):
            user, friend = self.random.sample(self.users, 2)
            self.graph.befriend(user, friend, True)
        for _ in range(6):
            self.graph.play(self.random.choice(self.users), self.random.choice(NUMBERS))
        faults, self.faults = self.faults, False
        for viewer_id in self.users[1:]:
            await self._finish(self._read_page(viewer_id, self._processes[0]))
        self.faults = faults

    # Operations

    async def _operate(self, what: str, a: int, b: int) -> None:
        user, other = self.users[a % len(self.users)], self.users[b % len(self.users)]
        if what in CHANGES:
            self._tell(change_truth(self.graph, what, user, other, b))
        elif what == "read":
            self._start(self._read_page(user, self._processes[b % 2]), None)
        elif what == "evict":
            await self.real_views.evict([user])
            self._last.clear()
        elif what == "snapshot":
            self._snapshot = await RedisSnapshot.take(self.redis)
            self._snapshot_clock = self._clock
        elif what == "rewind" and self._snapshot is not None:
            await self._snapshot.restore(self.redis)
            self._last.clear()
            self._redeliver(since=self._snapshot_clock)
        elif what == "lose":
            await self.redis.call("FLUSHALL")
            await self.redis.call("SCRIPT", "FLUSH")
            self._last.clear()
            if b % 2:  # the log of events went with it, or all of it comes again
                self._queue.clear()
            else:
                self._redeliver(since=0)

    def _tell(self, events: list[Event]) -> None:
        self._queue += [Delivery([event]) for event in events]

    def _redeliver(self, since: int) -> None:
        self._queue += [
            Delivery(delivery.events)
            for delivery in self._deliveries
            if delivery.finished is None or delivery.finished >= since
        ]

    # Workers and readers

    def _deliver(self) -> None:
        """Hand one or more waiting events to a worker, in any order; perhaps keep them to be delivered once more."""
        self.random.shuffle(self._queue)
        taken = [self._queue.pop() for _ in range(min(len(self._queue), self.random.choice((1, 1, 1, 2, 3))))]
        if self.faults and self.random.random() < self._repeats:
            self._queue.append(Delivery(taken[0].events))
        together = Delivery([event for delivery in taken for event in delivery.events])
        self._deliveries.append(together)
        self._start(self._work(together), together)

    def _start(self, coroutine: Any, delivery: Delivery | None) -> None:
        self._tasks[asyncio.create_task(coroutine)] = delivery

    async def _work(self, delivery: Delivery) -> None:
        worker.set(asyncio.current_task())
        await self._fan_out.handle(delivery.events)

    async def _read_page(self, viewer_id: int, process: WebProcess) -> None:
        began = len(self.graph.history) - 1
        counts = await process.cold_counts(viewer_id)
        true = [{number: moment[viewer_id].get(number, 0) for number in NUMBERS} for moment in self.graph.history]
        if counts is not None and counts not in true[began:]:
            raise WrongCountError(f"a cold page of {viewer_id} says {counts}, never true since the read began")

    def _quick_gates(self, waiting: bool) -> list[Gate]:
        """The calls to choose from: mostly neither those that hang nor those of the slow kind."""
        gates = self.stage.gates
        if gates and self.random.random() < self._hang:
            self._hanging[self.random.choice(gates)] = self._clock + self.random.randrange(20, 200)
        quick = [gate for gate in gates if gate.name != self._slow and self._hanging.get(gate, 0) < self._clock]
        return quick if (quick or waiting) and self.random.random() < 0.97 else gates

    async def _open_or_crash(self, gate: Gate) -> None:
        if self.faults and self.random.random() < 0.03:
            (gate.worker or gate.task).cancel()
        elif self.faults and self._lost_replies and self.random.random() < 0.05:
            # A call whose reply was lost had been sent twice; this is the second, however late.
            args, again = self.random.choice(self._lost_replies)
            await again()
            await self._check_views(viewers_written(args))
        else:
            await self.stage.open(gate)

    def _collect(self) -> None:
        for task in [task for task in self._tasks if task.done()]:
            delivery = self._tasks.pop(task)
            if not task.cancelled():
                if (error := task.exception()) is not None:
                    raise error
                if delivery is not None:
                    delivery.finished = self._clock
            elif delivery is not None:  # a worker died: what it had is delivered again
                self._queue.append(Delivery(delivery.events))

    async def _stop(self) -> None:
        tasks = {*self._tasks, *(gate.task for gate in self.stage.gates)}
        while tasks:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.stage.settle()
            tasks = {gate.task for gate in self.stage.gates}

    # Store calls

    async def _read(self, _: str, __: tuple[Any, ...], method: Callable[[], Awaitable[Any]]) -> Any:
        return await method()

    async def _call_views(self, name: str, args: tuple[Any, ...], method: Callable[[], Awaitable[Any]]) -> Any:
        if name in READS_OF_VIEWS:
            return await method()
        if name == "claim" and self.random.random() < 0.3:

            async def method() -> Any:
                return await self.late_views.claim(*args)

        reply = await method()
        if self.faults:
            if self.random.random() < 0.15:
                reply = await method()
            if self.random.random() < 0.3:
                self._lost_replies = [*self._lost_replies[-20:], (args, method)]
        for answer in reply if isinstance(reply, list) else [reply]:
            outcome = getattr(answer, "status", answer)
            self.outcomes[f"{name} {getattr(outcome, 'name', outcome is not None)}"] += 1
        await self._check_views(viewers_written(args))
        return reply

    # What must hold

    async def _check_views(self, viewer_ids: set[int]) -> None:
        views = await asyncio.gather(*[self.real_views.view(viewer_id) for viewer_id in viewer_ids])
        for viewer_id, view in zip(viewer_ids, views, strict=True):
            check_view(viewer_id, view, self._last.get(viewer_id), self.graph.logs)
            self._last[viewer_id] = view

    async def _compare_residents(self) -> None:
        """I3: nothing is in flight any more, so whoever has a view has the truth, once it was read."""
        self._clock += 1
        await self._lengths.pass_on(self.random, 1.0, self._clock)
        for viewer_id in self.users:
            if await self.real_views.counts(viewer_id) is None:
                continue
            await self._finish(self._read_page(viewer_id, self._processes[0]))
            counts = await self.real_views.counts(viewer_id)
            self.residents_compared += 1
            if counts != self.graph.truth(viewer_id):
                raise WrongCountError(f"I3: {viewer_id} has {counts} for {self.graph.truth(viewer_id)}")

    async def _build_all(self) -> None:
        """Whoever has no view, or a dead builder, has one after some reads."""
        for viewer_id in self.users:
            for _ in range(50):  # each read claims as though ten seconds had passed in three of ten
                if (counts := await self.real_views.counts(viewer_id)) is not None:
                    break
                await self._finish(self._read_page(viewer_id, self._processes[1]))
            if counts != self.graph.truth(viewer_id):
                raise WrongCountError(f"built last: {viewer_id} has {counts} for {self.graph.truth(viewer_id)}")

    async def _finish(self, coroutine: Any) -> None:
        self._start(coroutine, None)
        await self.stage.settle()
        while self.stage.gates or self._tasks:
            if self.stage.gates:
                await self.stage.open(self.random.choice(self.stage.gates))
            await self.stage.settle()
            self._collect()
