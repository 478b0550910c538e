"""A small world of real processes that a directed schedule leads from moment to moment."""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import Any, cast

from redis.exceptions import ConnectionError as RedisConnectionError

from signals.redis import SharedRedis
from signals.shards import shard_of
from tests.storm.model_truth import ModelTruth
from tests.storm.redis_snapshot import RedisSnapshot
from tests.storm.stage import Gate
from tests.storm.troupe import MOST_CALLS
from tests.storm.view_invariants import WrongCountError
from tests.storm.view_schedule import Schedule
from tests.storm.worker_process import Parts, WorkerProcess


class Directed:
    """`owner` plays, and `viewer`, their friend, has a view. The leader publishes, and the worker consumes.

    Args:
        shared: a Redis that is empty.
        parts: what the processes are made of.
    """

    def __init__(self, shared: SharedRedis, parts: Parts) -> None:
        self.shared = shared
        self.schedule = Schedule(shared, Random(1), parts=parts, faults=False, users=3, slow="")
        self.log = self.schedule.log
        self.log.relays = 1
        self.troupe = self.schedule.troupe
        self.owner, self.viewer, self.third = self.schedule.users
        #: The hash tag of the keys of the viewer's shard.
        self.shard = {b"%d" % shard_of(self.viewer)}
        self._numbers = iter(range(1, 60))
        self._held: list[Gate] = []

    @property
    def leader(self) -> WorkerProcess:
        """It relays."""
        return self.log.processes[0]

    @property
    def worker(self) -> WorkerProcess:
        """It consumes."""
        return self.log.processes[1]

    @property
    def truth(self) -> ModelTruth:
        """What is true now."""
        return cast("ModelTruth", self.schedule.graph)

    async def begin(self) -> None:
        """Until there is a view and nothing is under way."""
        for process in self.log.processes:
            if not process.ready:
                await self.finish(process, process.begin())
        self.truth.befriend(self.owner, self.viewer, True)
        self.truth.befriend(self.owner, self.third, True)
        self.play()
        await self.read()
        await self.log.drain()

    # What happens

    def play(self) -> None:
        """The owner plays another game."""
        assert self.truth.play(self.owner, next(self._numbers))

    async def read(self) -> None:
        """The viewer reads a page, and has a view from then on."""
        web, graph = self.schedule.web[0], self.schedule.graph
        self.troupe.start(self.schedule.read_page(self.viewer, web, graph))
        await self.go_on()

    async def remember(self) -> RedisSnapshot:
        """What Redis holds now."""
        return await RedisSnapshot.take(self.shared)

    async def forget(self, snapshot: RedisSnapshot, tags: set[bytes] | None = None) -> None:
        """Redis is as it was then; where tags are given, these alone."""
        await snapshot.restore(self.shared, tags)
        self.schedule.forget_what_was()

    def replace_truth(self) -> None:
        """Another truth takes the place of this one, and other processes that of these."""
        self.log.replace_truth(cast("ModelTruth", self.schedule.new_truth()))

    async def kill(self, process: WorkerProcess) -> None:
        """A process dies where it stands, and another one is started in its place."""
        self.log.kill(self.log.processes.index(process))
        await self._settle()

    # What processes do

    async def tell(self, process: WorkerProcess | None = None) -> None:
        """The leader, or another, publishes."""
        process = process or self.leader
        for _ in range(2):  # one may find that the streams are to be taken over
            await self.finish(process, process.publish())

    async def look(self) -> None:
        """The leader looks at the markers."""
        await self.finish(self.leader, self.leader.check())

    async def work(self, process: WorkerProcess | None = None) -> None:
        """The worker, or another, works on all that was told."""
        process = process or self.worker
        await self.finish(process, self.consume(process))

    async def consume(self, process: WorkerProcess) -> None:
        """As `work`, to be stopped in between."""
        for number in self.log.partitions():
            await process.consume(number, 256, claim=True)

    # How far they get

    async def finish(self, process: WorkerProcess, coroutine: Coroutine[Any, Any, object]) -> None:
        """Let a process do something to its end."""
        process.start(coroutine)
        await self.go_on()

    async def stop_before(self, call: str, process: WorkerProcess, coroutine: Coroutine[Any, Any, object]) -> None:
        """Let a process do something until it is about to make a call, at which it is held.

        Raises:
            WrongCountError: it makes no such call.
        """
        process.start(coroutine)
        await self.go_on(until=call)
        if all(gate.name != call for gate in self._held):
            raise WrongCountError(f"no {call} is made")

    async def pass_one(self) -> None:
        """Let the call that is held be made; whatever comes next is held."""
        (_,) = self._held
        await self.pass_all()

    async def pass_all(self) -> None:
        """Let all calls that are held be made; whatever comes next is held."""
        for gate in self._held:
            await self.troupe.stage.open(gate)
        await self._settle()
        self._held = [*self.troupe.stage.gates]

    async def fail_one(self) -> None:
        """Let the call that is held fail: its store is away."""
        (gate,) = self._held
        self.troupe.stage.fail(gate, RedisConnectionError("away"))
        self._held = []
        await self._settle()

    async def release(self, until: str = "") -> None:
        """Let those who are held come to their end, or be held before a call of that name."""
        self._held = []
        await self.go_on(until)

    async def go_on(self, until: str = "") -> None:
        """Let everybody who is not held come to their end, or be held before a call of that name."""
        for _ in range(MOST_CALLS):
            await self._settle()
            free = [gate for gate in self.troupe.stage.gates if gate not in self._held]
            self._held += [gate for gate in free if gate.name == until]
            free = [gate for gate in free if gate.name != until]
            if not free:
                return
            await self.troupe.stage.open(free[0])
        raise WrongCountError(f"no end after {MOST_CALLS} calls")

    async def _settle(self) -> None:
        await self.troupe.stage.settle()
        self.troupe.collect()
