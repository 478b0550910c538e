"""Events as the processes have them travel: the outbox, the relay, the log on Redis, consumers, acknowledgements,
markers; all of it real, one store call at a time, on a Redis that forgets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from events.event import Event
from events.redis_streams import EventLog, stream_key
from graph.social_graph import TruthUnavailableError
from signals.fence import marker_key
from signals.markers import ShardMarkers
from signals.redis import SharedRedis
from signals.shards import shard_of
from tests.storm.model_truth import ModelTruth
from tests.storm.stage import Gate
from tests.storm.store_calls import CALLS_OF_TRUTH
from tests.storm.troupe import Troupe
from tests.storm.view_invariants import NotDrainedError
from tests.storm.worker_process import Around, Parts, WorkerProcess

#: Steps of workers that follow on what happened, before everything is drained.
STEPS_AN_EVENT = 3
STEPS_A_LOSS = 12
#: Rounds within which everything in flight is done.
ROUNDS_TO_DRAIN = 30


class ForgetfulLog:
    """The events between the truth and the views.

    Args:
        shared: the Redis.
        truth: whose events they are.
        troupe: the processes' tasks are among it.
        around_views: what is done at a call of a process's views.
        parts: what the processes are made of.
        outcomes: counts what calls answer.
    """

    def __init__(
        self,
        shared: SharedRedis,
        truth: ModelTruth,
        troupe: Troupe,
        around_views: Around,
        parts: Parts,
        outcomes: Counter[str],
    ) -> None:
        self._shared = shared
        self._troupe = troupe
        self._random = troupe.random
        self._around_views = around_views
        self._parts = parts
        self._outcomes = outcomes
        self.relays = self._random.choice((1, 1, 2))  # two at once, as after a lease that ran out
        self._lost_replies = self._random.choice((0.0, 0.05))
        self._grace_seconds = self._random.choice((10.0, 100.0))
        self._steps_left = 0
        self._filled: set[int] = set()  # partitions that may hold something for a consumer
        self._markers = ShardMarkers(shared, shards=sorted({shard_of(user_id) for user_id in truth.user_ids}))
        self._names = 0
        self._truth = truth
        self._replaced: list[WorkerProcess] = []
        self.processes = [self._process() for _ in range(2)]

    def _process(self) -> WorkerProcess:
        self._names += 1
        return WorkerProcess(
            f"process-{self._names}", self._shared, self._truth, self._troupe, self._parts, self._around_views,
            self._around, self._grace_seconds,
        )  # fmt: skip

    @property
    def waiting(self) -> bool:
        """Whether a worker is to take another step."""
        return self._steps_left > 0

    def tell(self, events: list[Event]) -> None:
        """These happened, and stand in the outbox already."""
        self._steps_left += STEPS_AN_EVENT * len(events)

    def rewound(self, since: int) -> None:  # noqa: ARG002  # whoever has to know notices by itself
        """Redis is as it was at that time."""
        self._steps_left += STEPS_A_LOSS
        self._filled |= {*self.partitions()}

    def lost(self, free: int) -> None:  # noqa: ARG002  # as above
        """Redis has lost everything, or a part."""
        self._steps_left += STEPS_A_LOSS

    async def begin(self) -> None:
        """The processes are there: by beginning, or as though they had."""
        if self._random.random() < 0.2:
            for process in self.processes:
                await self._troupe.finish(process.begin())
        else:
            for shard in self._markers.shards:
                await self._shared.call("HSET", marker_key(shard), "truth", self._truth.truth_id, "batch", 0)
            for process in self.processes:
                process.ready = True

    def replace_truth(self, truth: ModelTruth) -> None:
        """Another truth takes the place of the first; processes of the first linger on, and begin nothing new."""
        self._replaced += self.processes
        self._truth = truth
        self.processes = [self._process() for _ in range(2)]
        self._steps_left += STEPS_A_LOSS

    def kill(self, which: int) -> None:
        """A process is killed, and another started in its place."""
        self._end(self.processes[which % 2])

    def crash(self, gate: Gate) -> bool:
        """Kill the process that waits at a gate. False where it is none of these."""
        for process in [*self.processes, *self._replaced]:
            if gate.worker in process.tasks:
                self._end(process)
                return True
        return False

    def _end(self, process: WorkerProcess) -> None:
        process.die()
        self._filled |= {*process.consuming}  # what it had is claimed
        if process in self.processes:
            self.processes[self.processes.index(process)] = self._process()

    def step(self) -> None:
        """Some worker begins something."""
        self._steps_left -= 1
        which = self._random.randrange(2)
        process = self.processes[which]
        if not process.ready:
            if not process.tasks:
                process.start(process.begin())
            return
        kind = self._random.random()
        if kind < 0.4 and which < self.relays and not process.relaying:
            tells = kind < 0.25 and (self._truth.waiting_rows or not process.relay._taken_over)
            process.start(process.publish() if tells else process.check())
        elif kind < 0.98 and self._filled:
            number = self._random.choice(sorted(self._filled))
            worked_on = any(number in other.consuming for other in self.processes)
            claim = not worked_on or self._random.random() < 0.1  # of one who lives: it was slow
            process.start(self._consume(process, number, self._random.choice((1, 2, 256)), claim=claim))
        elif kind >= 0.98:
            process.start(process.partitions[self._random.choice(self.partitions())].tidy(0))

    async def _consume(self, process: WorkerProcess, number: int, limit: int, *, claim: bool) -> None:
        if not await process.consume(number, limit, claim=claim) and claim:
            self._filled.discard(number)

    def partitions(self) -> list[int]:
        """Where events may be."""
        return sorted({Event(0, "user", user_id).partition for user_id in self._truth.user_ids})

    async def drain(self) -> None:
        """Let everything in flight be done by whoever leads, as time passes.

        Raises:
            NotDrainedError: it is not.
        """
        for process in [*self._replaced, *self.processes]:
            if process in self._replaced or not process.ready:
                process.die()
        await self._troupe.stage.settle()
        self._troupe.collect()
        leader = self.processes[self._random.randrange(self.relays)]
        if not leader.ready:
            await self._troupe.finish(leader.begin())
        for _ in range(ROUNDS_TO_DRAIN):
            self._troupe.clock += 200
            await self._troupe.finish(_quiet(leader.check()))
            leads = leader.relay._taken_over  # or it has just noticed something
            done = leads and not self._truth.waiting_rows and await self._settled()
            if done and not any((await self._depths()).values()):
                return
            for _ in range(3):  # one may find that the streams are to be taken over, and one does it
                if self._truth.waiting_rows or not leader.relay._taken_over:
                    await self._troupe.finish(_quiet(leader.publish()))
            for number, depth in (await self._depths()).items():
                if depth:
                    await self._troupe.finish(_quiet(self._consume_all(leader, number)))
        raise NotDrainedError(f"after {ROUNDS_TO_DRAIN} rounds: {await self._markers.read()}, {await self._depths()}")

    async def _consume_all(self, process: WorkerProcess, number: int) -> None:
        while await process.consume(number, 256, claim=True):
            pass

    async def _settled(self) -> bool:
        """Whether every shard holds every batch."""
        last = await self._truth.acknowledged_batch()
        return all(marker == (self._truth.truth_id, last) for marker in (await self._markers.read()).values())

    async def _depths(self) -> dict[int, int]:
        """Entries of each partition that are not acknowledged; those of a stream without a group, where it is."""
        pipeline = self._shared.client.pipeline(transaction=False)
        for number in self.partitions():
            pipeline.xinfo_groups(stream_key(number))
        replies = await pipeline.execute(raise_on_error=False)
        depths = {}
        for number, groups in zip(self.partitions(), replies, strict=True):
            if isinstance(groups, ResponseError):  # no such stream
                depths[number] = 0
            elif groups and groups[0]["lag"] is not None:
                depths[number] = groups[0]["lag"] + groups[0]["pending"]
            else:
                depths[number] = sum(await EventLog(self._shared.client)._depth(stream_key(number)))
        return depths

    async def _around(self, name: str, args: tuple[Any, ...], method: Callable[[], Awaitable[Any]]) -> Any:
        lost = self._troupe.faults and self._random.random() < self._lost_replies
        if lost and self._random.random() < 0.3:  # it never arrived
            raise _failure(name)
        reply = await method()
        if lost:
            raise _failure(name)
        if name == "append":
            self._filled |= {event.partition for event in args[0]}
        if name in ("append", "stands", "move", "unacknowledge_after", "settle"):
            plain = not reply if name == "settle" else reply is not None if name == "unacknowledge_after" else reply
            self._outcomes[f"{name} {bool(plain)}"] += 1
        return reply


async def _quiet(coroutine: Awaitable[object]) -> None:
    await coroutine


def _failure(name: str) -> Exception:
    """What a caller sees of a store that is away, or whose reply was lost."""
    if name in CALLS_OF_TRUTH and name != "acknowledge":
        return TruthUnavailableError("the truth is away")
    return RedisConnectionError("the reply was lost")
