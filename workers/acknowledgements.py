"""Acknowledgements of a process: what followed from events is done, told to the truth and then to the shards.

All consumers of the process share one call: what is acknowledged within a few milliseconds is one batch of the truth
and one look at the shards. `workers.markers` says what the batches are for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

import structlog

from graph.social_graph import SocialGraph
from signals.fence import Witness
from signals.markers import ShardMarkers
from workers.outage import is_outage, pause_seconds

log = structlog.get_logger(__name__)

#: What comes within this time is one batch.
GATHER_SECONDS = 0.01
#: A batch that cannot be settled because Redis is away is left after as many tries; its events come again.
SETTLE_ATTEMPTS = 5


class Acknowledgements:
    """Stamps batches of outbox rows and settles them in the shards.

    Args:
        graph: the truth, which numbers the batches.
        markers: of the shards.
        witness: of this process: the runs of scripts that the events' handling consisted of.
        gather_seconds: how long a batch waits for company.
    """

    def __init__(
        self,
        graph: SocialGraph,
        markers: ShardMarkers,
        witness: Witness,
        *,
        gather_seconds: float = GATHER_SECONDS,
    ) -> None:
        self._graph = graph
        self._markers = markers
        self._witness = witness
        self._gather_seconds = gather_seconds
        self._waiting: list[tuple[Collection[int], asyncio.Future[None]]] = []
        self._running: asyncio.Task[None] | None = None

    @property
    def truth_id(self) -> str:
        """Of which truth this process is."""
        return self._graph.truth_id

    async def acknowledge(self, row_ids: Collection[int]) -> None:
        """What followed from these rows of the outbox is done, in Redis too. Durable in the truth when it returns.

        Raises:
            Whatever the truth raises; it may be asked again.
        """
        loop = asyncio.get_running_loop()
        stamped: asyncio.Future[None] = loop.create_future()
        self._waiting.append((row_ids, stamped))
        if self._running is None:
            self._running = loop.create_task(self._run(), name="acknowledgements")
        await stamped

    async def close(self) -> None:
        """Wait for what is under way."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def _run(self) -> None:
        taken: list[tuple[Collection[int], asyncio.Future[None]]] = []
        try:
            while self._waiting:
                await asyncio.sleep(self._gather_seconds)
                taken, self._waiting = self._waiting, []
                runs = self._witness.take()  # those of these events returned before they came here
                try:
                    batch = await self._graph.acknowledge([row_id for row_ids, _ in taken for row_id in row_ids])
                except Exception as error:
                    # Stamped or not: where it was, the batch is never settled, and its events come again.
                    self._witness.give_back(runs)
                    for _, stamped in taken:
                        if not stamped.done():
                            stamped.set_exception(type(error)(*error.args))
                    continue
                for _, stamped in taken:
                    if not stamped.done():
                        stamped.set_result(None)
                await self._settle(batch, runs)
        finally:
            self._running = None
            for _, stamped in [*taken, *self._waiting]:  # only where this task was cancelled: the loop is going down
                stamped.cancel()
            self._waiting = []

    async def _settle(self, batch: int, runs: Mapping[int, Sequence[int]]) -> None:
        for attempt in range(1, SETTLE_ATTEMPTS + 1):
            try:
                missing = await self._markers.settle(self._graph.truth_id, batch, self._witness, runs)
            except Exception as error:
                if not is_outage(error):
                    log.error("batch_not_settled", batch=batch, exc_info=error)
                    return
                if attempt == SETTLE_ATTEMPTS:
                    log.warning("batch_not_settled", batch=batch, reason=str(error))
                    return
                await asyncio.sleep(pause_seconds(attempt))
            else:
                if missing:
                    log.info("batch_not_settled", batch=batch, shards=len(missing), reason="Redis has forgotten since")
                return
