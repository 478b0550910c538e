"""One random schedule of everything that happens to friend-played views: the real views, cold pages and fan-out, on a
real Redis, one store call at a time, with faults; compared with plain sets.

Events travel in one of two ways. `ScatteredEvents` hands them to workers in any order and as often as it likes.
`ForgetfulLog`, where `parts` are given, is the real way: outbox, relay, log, acknowledgements and markers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, cast

from redis.exceptions import ResponseError

from graph.social_graph import SocialGraph
from loaders.pulled_friends import PulledFriends
from signals.fence import marker_key
from signals.redis import SharedRedis
from signals.shards import shard_of
from signals.view import View
from signals.views import FriendViews
from tests.storm.final_comparison import build_all, compare_residents
from tests.storm.forgetful_log import ForgetfulLog
from tests.storm.model_graph import ModelGraph
from tests.storm.model_truth import ModelTruth
from tests.storm.redis_losses import RedisLosses
from tests.storm.scattered_events import ScatteredEvents
from tests.storm.slow_calls import SLOW_CALLS, SLOW_CALLS_OF_WORKERS, SlowCalls
from tests.storm.stage import Gate, Gated
from tests.storm.store_calls import CALLS_OF_VIEWS, READS_OF_TRUTH, READS_OF_VIEWS, viewers_written
from tests.storm.troupe import Troupe, raise_failure
from tests.storm.view_invariants import WrongCountError, check_view
from tests.storm.view_operations import CHANGES, NUMBERS, Operation, change_truth
from tests.storm.web_process import PublishedLengths, WebProcess
from tests.storm.worker_process import Parts
from workers.fan_out import FanOut
from workers.outage import is_outage

#: Neighbours beyond 2**53: an id that passes through a double meets another's.
USERS = [2**62 + place for place in range(1, 6)]


class Schedule:
    """Runs operations, workers, readers and builders in an order that `random` chooses.

    Args:
        redis: a Redis that is empty.
        random: every choice.
        make_views: makes views for a Redis; mutants hand in one whose views break a rule.
        make_fan_out: makes the workers' fan-out for a graph and views, likewise.
        make_pulled_friends: makes what catches up with pulled friends, likewise.
        parts: what whole processes are made of, where these are to carry the events.
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
        parts: Parts | None = None,
        faults: bool = True,
        users: int = len(USERS),
        slow: str | None = None,
    ) -> None:
        self.redis = redis if parts is None else parts.redis(redis)
        self.random = random
        self.users = USERS[:users]
        self.outcomes: Counter[str] = Counter()
        self.residents_compared = 0
        self._make_views = make_views
        self._make_pulled_friends = make_pulled_friends
        self._parts = parts
        self.troupe = Troupe(random, faults=faults)
        self.stage = self.troupe.stage
        slow_calls = SLOW_CALLS if parts is None else [*SLOW_CALLS_OF_WORKERS, *SLOW_CALLS]
        self._slow_calls = SlowCalls(self.troupe, random.choice([*slow_calls, ""]) if slow is None else slow)
        self._crashes = 0.03 if parts is None else random.choice((0.0, 0.0, 0.02))
        self._odds = (0.25, 0.5) if parts is None else random.choice(((0.25, 0.5), (0.04, 0.14)))
        self._hanging: dict[Gate, int] = {}
        self._lost_replies: list[tuple[tuple[Any, ...], Callable[[], Awaitable[Any]]]] = []
        self._last: dict[int, View | None] = {}
        self._one_check = asyncio.Lock()
        self._losses = RedisLosses(self.redis, random, nodes=parts is not None)
        self._truths: list[ModelGraph] = []
        self.web: list[WebProcess] = []  # two, which compete for builds and for catching up
        self.graph = self.new_truth()
        if parts is None:
            self.events: ScatteredEvents | ForgetfulLog = ScatteredEvents(
                self.troupe, make_fan_out(self._graph, self._views)
            )
        else:
            self.events = self.log = ForgetfulLog(
                self.redis,
                cast("ModelTruth", self.graph),
                self.troupe,
                partial(self._call_views, None),
                parts,
                self.outcomes,
            )

    def new_truth(self) -> ModelGraph:
        """A truth with a little in it, and two web processes that read it."""
        name = f"truth{len(self._truths) + 1}"
        self.graph = ModelGraph(self.users) if self._parts is None else self._parts.truth(self.users, name)
        self._truths.append(self.graph)
        fence = {} if self._parts is None else {"fence": self._parts.fence(lambda: name)}
        self.real_views = self._make_views(self.redis, **fence)
        late_views = self._make_views(self.redis, dead_build_seconds=0, **fence)  # as though ten seconds had passed
        self._graph = cast("SocialGraph", Gated(self.graph, self.stage, READS_OF_TRUTH, self._read))
        around = partial(self._call_views, late_views)
        self._views = cast("FriendViews", Gated(self.real_views, self.stage, CALLS_OF_VIEWS, around))
        parts = self.redis, self._graph, self._views, lambda: float(self.troupe.clock), self._make_pulled_friends
        self.web = [WebProcess(*parts) for _ in range(2)]
        self.lengths = PublishedLengths(self.graph, self.web)
        return self.graph

    async def run(self, operations: Sequence[Operation]) -> None:
        """Run all operations, let everything come to its end, and compare every view with the truth."""
        troupe = self.troupe
        try:
            await self._begin()
            left = list(reversed(operations))
            while left or self.events.waiting or (troupe.busy and self._parts is None):
                troupe.clock += 1
                await self.lengths.pass_on(self.random, 0.1, troupe.clock)
                choice = self.random.random()
                gates = self._slow_calls.quick_gates(waiting=bool(left or self.events.waiting))
                if left and (choice < self._odds[0] or not (self.events.waiting or gates)):
                    await self._operate(*left.pop())
                elif self.events.waiting and (choice < self._odds[1] or not gates):
                    self.events.step()
                elif gates:
                    await self._open_or_crash(self.random.choice(gates))
                await self.stage.settle()
                troupe.collect()
            await self.end()
        finally:
            await self.stop()

    async def end(self) -> None:
        """Nothing goes wrong any more: let everything in flight be done, and compare every view with the truth."""
        self.troupe.faults = False
        await self.events.drain()
        self.residents_compared += await compare_residents(self)
        await build_all(self)

    async def stop(self) -> None:
        """Nobody goes on."""
        await self.troupe.stop()
        for truth in self._truths:
            if isinstance(truth, ModelTruth):
                truth.close()

    async def _begin(self) -> None:
        """A world that has been there for a while: some friends, some plays, most views built."""
        for _ in range(5):
            user, friend = self.random.sample(self.users, 2)
            self.graph.befriend(user, friend, True)
        for _ in range(6):
            self.graph.play(self.random.choice(self.users), self.random.choice(NUMBERS))
        faults, self.troupe.faults = self.troupe.faults, False
        if self._parts is not None:
            await self.log.begin()
        await self.read_pages(self.users[1:])
        self.troupe.faults = faults

    # Operations

    async def _operate(self, what: str, a: int, b: int) -> None:
        user, other = self.users[a % len(self.users)], self.users[b % len(self.users)]
        if what in CHANGES:
            self.events.tell(change_truth(self.graph, what, user, other, b))
        elif what == "read":
            self.troupe.start(self.read_page(user, self.web[b % 2], self.graph), self._page_read)
        elif what == "evict":
            with suppress(ResponseError):  # of another truth, where a shard is for a while
                await self.real_views.evict([user])
            self.forget_what_was()
        elif what == "snapshot":
            await self._losses.remember(self.troupe.clock)
        elif what == "rewind":
            if (then := await self._losses.rewind(b)) is not None:
                self.forget_what_was()
                self.events.rewound(then)
        elif what == "lose":
            await self._losses.lose(b)
            self.forget_what_was()
            self.events.lost(b)
        elif what == "kill":
            self.log.kill(b)
        elif what == "later":
            cast("ModelTruth", self.graph).now_ms += (200_000, 601_000, 601_000)[b % 3]
        elif what == "replace" and b % 4 == 0:
            self.log.replace_truth(cast("ModelTruth", self.new_truth()))
            for _ in range(4):
                user, friend = self.random.sample(self.users, 2)
                self.events.tell(self.graph.befriend(user, friend, True))
                self.events.tell(self.graph.play(friend, self.random.choice(NUMBERS)))

    # Readers

    async def read_page(self, viewer_id: int, process: WebProcess, graph: ModelGraph) -> None:
        began = len(graph.history) - 1
        counts = await process.cold_counts(viewer_id)
        true = [{number: moment[viewer_id].get(number, 0) for number in NUMBERS} for moment in graph.history]
        if counts is not None and counts not in true[began:]:
            raise WrongCountError(f"a cold page of {viewer_id} says {counts}, never true since the read began")

    async def read_pages(self, viewer_ids: Sequence[int]) -> None:
        """Read pages, to their end."""
        for viewer_id in viewer_ids:
            self.troupe.start(self.read_page(viewer_id, self.web[0], self.graph))
        await self.troupe.finish()

    def _page_read(self, task: asyncio.Task[None]) -> None:
        if len(self._truths) > 1 and not task.cancelled():
            error = task.exception()
            if error is not None and is_outage(error):
                return  # a shard is of another truth for a while: the page is answered from the truth, or not at all
        raise_failure(task)

    async def _open_or_crash(self, gate: Gate) -> None:
        if self.troupe.faults and self.random.random() < self._crashes:
            if self._parts is None or not self.log.crash(gate):
                (gate.worker or gate.task).cancel()
        elif self.troupe.faults and self._lost_replies and self.random.random() < 0.05:
            # A call whose reply was lost had been sent twice; this is the second, however late.
            args, again = self.random.choice(self._lost_replies)
            with suppress(ResponseError):  # as above
                await self._checked(viewers_written(args), again)
        else:
            await self.stage.open(gate)

    # Store calls

    async def _read(self, _: str, __: tuple[Any, ...], method: Callable[[], Awaitable[Any]]) -> Any:
        return await method()

    async def _call_views(
        self, late_views: FriendViews | None, name: str, args: tuple[Any, ...], method: Callable[[], Awaitable[Any]]
    ) -> Any:
        if name in READS_OF_VIEWS:
            return await method()
        if name == "claim" and late_views is not None and self.random.random() < 0.3:
            method = partial(late_views.claim, *args)
        if self.troupe.faults:
            if self.random.random() < 0.15:
                await method()
            if self.random.random() < 0.3:
                self._lost_replies = [*self._lost_replies[-20:], (args, method)]
        reply = await self._checked(viewers_written(args), method)
        for answer in reply if isinstance(reply, list) else [reply]:
            outcome = getattr(answer, "status", answer)
            self.outcomes[f"{name} {getattr(outcome, 'name', outcome is not None)}"] += 1
        return reply

    # What must hold

    async def _checked(self, viewer_ids: set[int], method: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call, and look at the views that it wrote, in one round trip."""
        async with self._one_check:  # where calls pass freely: what was read first is compared first
            calls = [method(), *map(self.real_views.view, viewer_ids)]
            reply, *views = await asyncio.gather(*calls, return_exceptions=True)
            for viewer_id, view in zip(viewer_ids, views, strict=True):
                if isinstance(view, BaseException):
                    raise view
                truth = self.graph if len(self._truths) == 1 else await self._truth_of(viewer_id)
                if truth is not None:
                    try:
                        check_view(viewer_id, view, self._last.get(viewer_id), truth.logs)
                    except WrongCountError as error:
                        self.troupe.wrong = error
                        raise
                self._last[viewer_id] = view
        if isinstance(reply, BaseException):
            raise reply
        return reply

    async def _truth_of(self, viewer_id: int) -> ModelGraph | None:
        """The truth that a viewer's shard is of; None while it is of none, and is emptied before it is of one."""
        truth_id, batch = await self.redis.call("HMGET", marker_key(shard_of(viewer_id)), "truth", "batch")
        if truth_id is None or batch is None:
            return None
        return next(truth for truth in self._truths if cast("ModelTruth", truth).truth_id == truth_id.decode())

    def forget_what_was(self) -> None:
        """Redis went back, and I2 with it."""
        self._last.clear()
