"""A process with all its workers, as `app.py` puts them together, whose every store call waits on the stage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from events.dead_letters import DeadLetters
from events.event import PARTITIONS
from events.publisher import Publisher
from events.redis_streams import EventLog, Partition
from graph.social_graph import SocialGraph
from signals.fence import Fence, Witness
from signals.markers import ShardMarkers
from signals.redis import SharedRedis
from signals.shards import shard_of
from signals.views import FriendViews
from tests.storm.model_truth import ModelTruth
from tests.storm.stage import Gated, worker
from tests.storm.store_calls import (
    CALLS_OF_LOG,
    CALLS_OF_MARKERS,
    CALLS_OF_PARTITION,
    CALLS_OF_REDIS,
    CALLS_OF_TRUTH,
    CALLS_OF_VIEWS,
)
from tests.storm.troupe import Troupe
from workers.acknowledgements import Acknowledgements
from workers.fan_out import FanOut
from workers.fan_out_consumer import FanOutConsumer, Pace
from workers.lease import Lease
from workers.markers import Markers
from workers.outage import is_outage
from workers.outbox_relay import OutboxRelay

Around = Callable[[str, tuple[Any, ...], Callable[[], Awaitable[Any]]], Awaitable[Any]]

#: Nothing happens by itself, and an entry that nobody works on may be claimed at once.
PACE = Pace(claim_idle_ms=1_000_000_000)


@dataclass(frozen=True)
class Parts:
    """What a process is made of; mutants put another in the place of one."""

    truth: Callable[..., ModelTruth] = ModelTruth
    fence: Callable[..., Fence] = Fence
    fan_out: Callable[..., FanOut] = FanOut
    consumer: Callable[..., FanOutConsumer] = FanOutConsumer
    acknowledgements: Callable[..., Acknowledgements] = Acknowledgements
    publisher: Callable[..., Publisher] = Publisher
    shard_markers: Callable[..., ShardMarkers] = ShardMarkers
    markers: Callable[..., Markers] = Markers
    relay: Callable[..., OutboxRelay] = OutboxRelay
    redis: Callable[[SharedRedis], SharedRedis] = lambda redis: redis


class WorkerProcess:
    """One process.

    Args:
        name: of its consumers.
        redis: where what is derived is.
        truth: its truth.
        troupe: its tasks are among it.
        parts: what it is made of.
        around_views: what is done at a call of its views.
        around: what is done at any other call.
        grace_seconds: in steps of the schedule.
    """

    def __init__(
        self,
        name: str,
        redis: SharedRedis,
        truth: ModelTruth,
        troupe: Troupe,
        parts: Parts,
        around_views: Around,
        around: Around,
        grace_seconds: float,
    ) -> None:
        def gated(target: object, methods: frozenset[str], around: Around, plain: str = "") -> Any:
            return Gated(target, troupe.stage, methods, around, frozenset(plain.split()))

        def truth_id() -> str:
            return truth.truth_id

        self.truth = truth
        self.ready = False
        self.relaying = False
        self.tasks: set[asyncio.Task[None]] = set()
        self.consuming: list[int] = []  # partitions, each as often as it is being worked on
        self._troupe = troupe
        graph: SocialGraph = gated(truth, CALLS_OF_TRUTH, around, "truth_id on_commit")
        witness = Witness()
        views = gated(FriendViews(redis, fence=parts.fence(truth_id, witness)), CALLS_OF_VIEWS, around_views)
        shards = sorted({shard_of(user_id) for user_id in truth.user_ids})
        shard_markers: ShardMarkers = gated(
            parts.shard_markers(redis, shards=shards), CALLS_OF_MARKERS, around, "shards"
        )
        publisher: Publisher = gated(parts.publisher(redis.client, truth_id), CALLS_OF_LOG, around)
        steps_on_redis: SharedRedis = gated(redis, CALLS_OF_REDIS, around)
        self.acknowledgements = parts.acknowledgements(graph, shard_markers, witness, gather_seconds=0.0)
        self.markers = parts.markers(
            graph, steps_on_redis, shard_markers, publisher,
            grace_seconds=grace_seconds, monotonic=lambda: float(troupe.clock),
        )  # fmt: skip
        log = EventLog(redis.client)
        self.relay = parts.relay(graph, log, cast("Lease", None), markers=self.markers)
        self.partitions: dict[int, Partition] = {
            number: gated(log.partition(number, name), CALLS_OF_PARTITION, around, "number consumer")
            for number in range(PARTITIONS)
        }
        fan_out, letters = parts.fan_out(graph, views), DeadLetters(redis.client)
        self._consumers = {
            number: parts.consumer(partition, fan_out, letters, PACE, self.acknowledgements)
            for number, partition in self.partitions.items()
        }

    def start(self, coroutine: Any) -> None:
        """Begin a task of this process, which dies with it."""

        async def run() -> None:
            worker.set(asyncio.current_task())
            try:
                await coroutine
            except Exception as error:
                if not is_outage(error):  # a store that is away: the supervisor begins it again
                    raise

        task = self._troupe.start(run(), self._ended)
        self.tasks.add(task)

    def die(self) -> None:
        """The process is killed: its tasks end where they are."""
        for task in self.tasks:
            task.cancel()
        if self.acknowledgements._running is not None:
            self.acknowledgements._running.cancel()

    async def begin(self) -> None:
        """Before anything else: what is derived is of this truth."""
        await self.markers.begin()
        self.ready = True

    async def publish(self) -> None:
        """One round of the relay."""
        self.relaying = True
        try:
            await self.relay.publish()
        finally:
            self.relaying = False

    async def check(self) -> None:
        """One look at the markers."""
        self.relaying = True
        try:
            await self.relay.check()
        finally:
            self.relaying = False

    async def consume(self, number: int, limit: int, *, claim: bool) -> bool:
        """Work on entries of a partition; those that somebody left first, where `claim` says so. False: none there."""
        partition = self.partitions[number]
        self.consuming.append(number)
        try:
            deliveries = await partition.claim(0, limit) if claim else []
            deliveries = deliveries or await partition.read(limit, cast("int", None))  # without waiting for one
            if deliveries:
                await self._consumers[number]._work(deliveries)  # one batch, by hand
        finally:
            self.consuming.remove(number)
        return bool(deliveries)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
