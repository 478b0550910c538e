"""Events without a log: handed to workers in any order, again and again, and after a loss told anew.

How the schedules of views have their events travel. What is told after a rewind is known from the schedule itself;
`forgetful_log.py` has the real relay, log and acknowledgements do that.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from events.event import Event
from tests.storm.stage import worker
from tests.storm.troupe import Troupe, raise_failure
from workers.fan_out import FanOut


@dataclass(eq=False)
class Delivery:
    """Events handed to a worker together; delivered again until the worker is done with them."""

    events: list[Event]
    finished: int | None = None  # when it was acknowledged, by the schedule's own count


class ScatteredEvents:
    """The events between the truth and the views.

    Args:
        troupe: the workers' tasks are among it.
        fan_out: of the workers.
    """

    def __init__(self, troupe: Troupe, fan_out: FanOut) -> None:
        self._troupe = troupe
        self._random = troupe.random
        self._fan_out = fan_out
        # Repeated events heal what they find, so often there are none.
        self._repeats = self._random.choice((0.0, 0.0, 0.25))
        self._deliveries: list[Delivery] = []  # all that a worker was ever handed
        self._queue: list[Delivery] = []

    @property
    def waiting(self) -> bool:
        """Whether there is something to hand to a worker."""
        return bool(self._queue)

    def tell(self, events: list[Event]) -> None:
        """These happened."""
        self._queue += [Delivery([event]) for event in events]

    def step(self) -> None:
        """Hand one or more waiting events to a worker, in any order; perhaps keep them to be delivered once more."""
        self._random.shuffle(self._queue)
        taken = [self._queue.pop() for _ in range(min(len(self._queue), self._random.choice((1, 1, 1, 2, 3))))]
        if self._troupe.faults and self._random.random() < self._repeats:
            self._queue.append(Delivery(taken[0].events))
        together = Delivery([event for delivery in taken for event in delivery.events])
        self._deliveries.append(together)
        self._troupe.start(self._work(together), lambda task: self._ended(task, together))

    def rewound(self, since: int) -> None:
        """Redis is as it was at that time."""
        self._queue += [
            Delivery(delivery.events)
            for delivery in self._deliveries
            if delivery.finished is None or delivery.finished >= since
        ]

    def lost(self, free: int) -> None:
        """Redis has lost everything."""
        if free % 2:  # the log of events went with it, or all of it comes again
            self._queue.clear()
        else:
            self.rewound(since=0)

    async def drain(self) -> None:
        """Nothing is left: whoever was killed had their events handed to another."""

    async def _work(self, delivery: Delivery) -> None:
        worker.set(asyncio.current_task())
        await self._fan_out.handle(delivery.events)

    def _ended(self, task: asyncio.Task[None], delivery: Delivery) -> None:
        raise_failure(task)
        if task.cancelled():  # a worker died: what it had is delivered again
            self._queue.append(Delivery(delivery.events))
        else:
            delivery.finished = self._troupe.clock
