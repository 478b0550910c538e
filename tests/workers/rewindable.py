"""A small system of workers, step by step, on a Redis that can be put back."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import redis.asyncio

from events.dead_letters import DeadLetters
from events.event import PARTITIONS, Event
from events.publisher import Publisher
from events.redis_streams import EventLog, Partition
from graph.social_graph import SocialGraph
from signals.fence import Fence, Witness
from signals.markers import ShardMarkers
from signals.redis import SharedRedis
from signals.views import FriendViews
from tests.workers.views_of_truth import true_counts
from workers.acknowledgements import Acknowledgements
from workers.fan_out import FanOut
from workers.fan_out_consumer import FanOutConsumer, Pace
from workers.lease import Lease
from workers.markers import Markers
from workers.outbox_relay import OutboxRelay

#: Nothing waits for long.
SOON = Pace(block_ms=1, claim_idle_ms=0, tidy_seconds=3_600)


class Clock:
    """A process's clock, which stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Process:
    """One process with all its workers, each step made by hand."""

    def __init__(
        self,
        graph: SocialGraph,
        shared: SharedRedis,
        client: redis.asyncio.Redis,
        *,
        gather_seconds: float = 0.0,
        name: str = "process",
    ) -> None:
        def truth_id() -> str:
            return graph.truth_id

        self.graph = graph
        self.shared = shared
        self.clock = Clock()
        self.witness = Witness()
        self.shard_markers = ShardMarkers(shared)
        self.views = FriendViews(shared, fence=Fence(truth_id))
        self.fan_out = FanOut(graph, FriendViews(shared, fence=Fence(truth_id, self.witness)))
        self.acknowledgements = Acknowledgements(graph, self.shard_markers, self.witness, gather_seconds=gather_seconds)
        self.markers = Markers(graph, shared, self.shard_markers, Publisher(client, truth_id), monotonic=self.clock)
        self.log = EventLog(client)
        self.relay = OutboxRelay(graph, self.log, Lease(shared, "relay", 3.0), markers=self.markers)
        self.letters = DeadLetters(client)
        self.partitions = [self.log.partition(number, name) for number in range(PARTITIONS)]

    async def publish(self) -> int:
        """Publish all that waits; how many rows."""
        published = 0
        for _ in range(50):
            published += (rows := await self.relay.publish())
            if not rows and not await self.graph.outbox(1):
                return published
        raise AssertionError("the relay does not come to an end")

    async def deliver(self) -> list[Event]:
        """Everything in the log that was not acknowledged, handled as a consumer does."""
        handled = await asyncio.gather(*map(self._deliver, self.partitions))
        await self.acknowledgements.close()
        return [event for events in handled for event in events]

    async def _deliver(self, partition: Partition) -> list[Event]:
        handled: list[Event] = []
        consumer = FanOutConsumer(partition, self.fan_out, self.letters, SOON, self.acknowledgements)
        while True:
            deliveries = await partition.claim(0, 256)
            for _ in range(2):  # the first read may have had to make the group
                deliveries = deliveries or await partition.read(256, 1)
            if not deliveries:
                return handled
            await consumer._work(deliveries)  # one batch, by hand
            handled += [Event.decode(delivery.data) for delivery in deliveries]

    async def drain(self) -> None:
        """Tell and handle all there is, with looks at the markers in between as time passes."""
        for _ in range(50):
            await self.publish()
            await self.deliver()
            self.clock.now += 3.0
            await self.relay.check()
            leads = self.relay._taken_over  # or it has just noticed something
            if leads and not await self.graph.outbox(1) and await self.settled():
                return
        raise AssertionError("the log does not drain")

    async def settled(self) -> bool:
        """Whether every shard holds every batch, and nothing is in the log."""
        last = await self.graph.acknowledged_batch()
        markers = await self.shard_markers.read()
        depths = await self.log.depths()
        return all(marker == (self.graph.truth_id, last) for marker in markers.values()) and not any(map(sum, depths))

    async def wrong(self, viewers: Collection[int]) -> dict[int, object]:
        """The viewers who have a view that is not what the truth says."""
        wrong: dict[int, object] = {}
        for viewer in viewers:
            counts = await self.views.counts(viewer)
            if counts is not None and counts != await true_counts(self.graph, viewer):
                wrong[viewer] = counts
        return wrong


async def resident(process: Process, viewers: Sequence[int]) -> list[int]:
    """Those of the viewers who have a view."""
    return [viewer for viewer in viewers if await process.views.counts(viewer) is not None]
