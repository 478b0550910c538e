"""Redis may forget: what is noticed of it, and what is told again.

Redis may lose its last second, fail over to a replica that is behind, come back from an old file, or be another one
than before. Then views hold cursors of an earlier moment, and nothing is wrong with them but that some events will
never come: they were acknowledged. So the truth keeps the events until they are acknowledged, and for ten minutes more,
and each shard of derived state holds a *marker* that says which acknowledgements are in it. There is no clock in any of
it.

**What a marker says.** Acknowledging stamps a batch of events in the truth with the next number. The marker of a shard
holds the truth's id and a number b: *whatever the handling of the events of batches 1..b did to this shard, or
concluded from reading it, happened in the history of this very shard before the marker came to say b.* A rewound shard
is a beginning of its own history, so it holds a marker that is still true. That is all; the rest follows.

**Why it is true.** A batch is settled in a shard by one script (`settle.lua`), which runs after the stamp, and only if
every script that the handling ran on this shard is still part of its history: each left its number in the same step as
what it did (`signals.fence`). A rewind between an update and the settling takes the number with the update, so the
batch stays unsettled. `b` moves to the next number only once that one is settled; the numbers are dense, so no batch is
left out. Events of which another shard alone had to know are settled here without any number to look for.

**What is done.** The leader compares the markers with the truth's last number, once a second, and whenever it begins:

- A marker that is lower than it was when the leader looked last: the shard was rewound. A marker that stays behind a
  number which the truth had given by the look before: a rewind that left the marker as it was, or a worker that died
  between the stamp and the settling. Either way batches b+1.. are not known to be in the shard. *First* one transaction
  takes them back in the truth, so that their events are published again; *then* the marker moves, by compare and set,
  to a number that the truth had given before that transaction: those batches are empty now, and an empty batch is in
  every shard. Were it the other way round, a leader that died between the two would have lost them.
- A marker of a batch whose successors are no longer kept, of another truth, without a number, or none at all: nobody
  can tell what is missing. The shard is marked as being emptied, which keeps writers of another truth out; its views
  are evicted one by one and its live sessions dropped, and then it counts from a number that the truth had given
  before. Whatever is there then was built after the mark, from a truth that held every event of those batches. Each
  step leaves its number, and the marker moves only where all are there: after a rewind in between it starts over.
- A marker ahead of the truth: the truth is an older copy of itself. Nothing of what is derived can be trusted.

Taking back also republishes what was published and never acknowledged, since the stream may have lost it. The streams
have marks of their own, which change with every append (`events.publisher`): what is not what this publisher wrote last
is a rewind of the stream, or another relay. A relay that takes over cannot know what its predecessor's streams have
lost in between, and has everything published again that is not acknowledged: as much as is under way at that moment.

**Nothing is counted twice** by telling it twice, or by two leaders at once: events are applied by cursors. **A page**
read between a rewind and the moment when its events have come again may show an older count. It lasts for the time
between two looks, plus one look more where the marker stayed as it was, and until the log has drained.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog

from events.dead_letters import KEY as DEAD_LETTERS_KEY
from events.publisher import Publisher
from graph.social_graph import SocialGraph
from signals.fence import Fence, Witness
from signals.live_sessions import LIVE_KEYS
from signals.markers import Marker, ShardMarkers
from signals.published_totals import TOTALS_KEYS
from signals.redis import SharedRedis, script
from signals.view_keys import last_reads
from signals.views import FriendViews

log = structlog.get_logger(__name__)

#: Views of a shard that is emptied, evicted at once.
EVICTED_AT_ONCE = 512
#: A batch that is not settled after this long will not be: its worker died. Longer than a worker takes from the stamp
#: to the settling, or events are told twice for nothing.
GRACE_SECONDS = 2.0
#: Where batches stay unsettled again and again, workers are slow and not dead: wait longer each time, up to this.
LONGEST_GRACE_SECONDS = 60.0


class Markers:
    """Compares markers with the truth and mends what is behind. One task at a time uses it.

    Args:
        graph: the truth.
        redis: where what is derived is.
        markers: of the shards.
        publisher: of the event log.
        grace_seconds: how long a batch may take from its stamp until it is settled.
        monotonic: this process's clock, in seconds. It decides how soon events are told again, never whether.
    """

    def __init__(
        self,
        graph: SocialGraph,
        redis: SharedRedis,
        markers: ShardMarkers,
        publisher: Publisher,
        *,
        grace_seconds: float = GRACE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.publisher = publisher
        self._graph = graph
        self._redis = redis
        self._markers = markers
        self._first_grace_seconds = self._grace_seconds = grace_seconds
        self._monotonic = monotonic
        self._known: dict[int, int] = {}
        self._stamped: list[tuple[float, int]] = []  # when this process saw which last batch, oldest first

    async def begin(self) -> None:
        """Before anything derived is read or written: empty what is not of this truth. Any process may do it.

        Raises:
            GraphError, redis.exceptions.RedisError: what is derived may be half emptied; beginning again is harmless.
        """
        found = await self._markers.read()
        last = await self._graph.acknowledged_batch()
        to_empty = self._not_of_this_truth(found, last)
        dropped = await self.publisher.drop(only_another_truths=not self._is_ahead(found, last))
        if to_empty or dropped:
            log.info("derived_state_emptied", shards=len(to_empty), streams=dropped, truth_id=self._graph.truth_id)
        await self._empty(to_empty, last)

    async def take_over(self) -> None:
        """Begin to lead: take the streams over, and have everything told again that is not known to be in.

        Raises:
            GraphError, redis.exceptions.RedisError: take over again.
        """
        self._known, self._stamped = {}, []
        found = await self._markers.read()
        last = await self._graph.acknowledged_batch()
        if self._is_ahead(found, last):
            await self.publisher.drop(only_another_truths=False)
        await self.publisher.adopt()  # before the rows are taken back: another relay's append no longer passes
        to_empty = self._not_of_this_truth(found, last)
        behind = {shard: marker for shard, marker in found.items() if shard not in to_empty and marker.batch != last}
        await self._mend(behind, to_empty, last)
        log.info("markers_taken_over", behind=len(behind), emptied=len(to_empty))

    async def check(self) -> bool:
        """Look once. False where the streams are not what this process knows, or nothing else is: take over.

        Raises:
            GraphError, redis.exceptions.RedisError: look again.
        """
        if not await self.publisher.stands():
            log.warning("streams_rewound")
            return False
        found = await self._markers.read()
        last = await self._graph.acknowledged_batch()  # behind the markers, which it is never behind in one truth
        to_empty = self._not_of_this_truth(found, last)
        if self._is_ahead(found, last):
            return False
        due = self._due(last)
        behind: dict[int, Marker] = {}
        rewound = False
        for shard, marker in found.items():
            if shard in to_empty or marker.batch is None:
                continue
            if marker.batch < self._known.get(shard, 0):
                behind[shard], rewound = marker, True
            elif marker.batch < due:
                behind[shard] = marker
            else:
                self._known[shard] = marker.batch
        if behind or to_empty:
            log.warning("shards_rewound", behind=len(behind), seen_to_go_back=rewound, emptied=len(to_empty))
            if not rewound and not to_empty:
                self._grace_seconds = min(self._grace_seconds * 2, LONGEST_GRACE_SECONDS)
            await self._mend(behind, to_empty, last)
        elif due:
            self._grace_seconds = max(self._first_grace_seconds, self._grace_seconds * 0.99)
        return True

    def _not_of_this_truth(self, found: Mapping[int, Marker], last: int) -> dict[int, Marker]:
        """The shards to be emptied whatever is kept: every one of them where the truth is an older copy of itself."""
        if self._is_ahead(found, last):
            return dict(found)
        return {shard: m for shard, m in found.items() if m.truth_id != self._graph.truth_id or m.batch is None}

    def _is_ahead(self, found: Mapping[int, Marker], last: int) -> bool:
        truth_id = self._graph.truth_id
        return any(marker.truth_id == truth_id and (marker.batch or 0) > last for marker in found.values())

    def _due(self, last: int) -> int:
        """The last batch that this process saw stamped so long ago that it is settled, if it ever will be."""
        now = self._monotonic()
        if not self._stamped or self._stamped[-1][1] != last:
            self._stamped.append((now, last))
        due = 0
        for at, batch in self._stamped:
            if now - at >= self._grace_seconds:
                due = batch
        self._stamped = [(at, batch) for at, batch in self._stamped if batch >= due]
        return due

    async def _mend(self, behind: Mapping[int, Marker], to_empty: Mapping[int, Marker], last: int) -> None:
        """Have told again what is not known to be in these shards; then, and not before, move their markers."""
        too_old: dict[int, Marker] = {}
        for batch in sorted({marker.batch or 0 for marker in behind.values()}):
            taken_back = await self._graph.unacknowledge_after(batch)
            if taken_back is not None:
                break
            too_old |= {shard: marker for shard, marker in behind.items() if marker.batch == batch}
        else:
            taken_back = await self._graph.unacknowledge_after(last)
        log.info("events_told_again", count=taken_back, shards=len(behind), too_old=len(too_old))
        to = Marker(self._graph.truth_id, last)
        for shard, marker in behind.items():
            if shard not in too_old and await self._markers.move(shard, marker, to):
                self._known[shard] = last
        await self._empty({**to_empty, **too_old}, last)

    async def _empty(self, shards: Mapping[int, Marker], last: int) -> None:
        """Empty shards. `last` is a batch that the truth had given before they were read."""
        empties = [self._empty_one(shard, found, last) for shard, found in shards.items()]
        for outcome in await asyncio.gather(*empties, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _empty_one(self, shard: int, found: Marker, last: int) -> None:
        being_emptied = Marker(self._graph.truth_id)
        if not await self._markers.move(shard, found, being_emptied):
            return  # something else stands there by now: looked at the next time
        if shard == min(self._markers.shards) and found.truth_id != being_emptied.truth_id:
            await self._empty_what_no_shard_holds()
        # Each step leaves a trace: a rewind to a moment when the shard was being emptied brings back what it dropped,
        # and a marker that looks as it does now.
        emptied = Witness()
        fence = Fence(lambda: self._graph.truth_id, emptied)
        views = FriendViews(self._redis, fence=fence)
        # Read once: who is claimed from here on is of this truth.
        read = await fence.read(self._redis, shard, "ZRANGE", last_reads(shard), 0, -1)
        viewers = [int(viewer) for viewer in read]
        for start in range(0, len(viewers), EVICTED_AT_ONCE):
            await views.evict(viewers[start : start + EVICTED_AT_ONCE])
        await fence.run(self._redis, script("unlink"), shard, LIVE_KEYS[shard], [])
        if await self._markers.move(shard, being_emptied, being_emptied._replace(batch=last), emptied):
            self._known[shard] = last

    async def _empty_what_no_shard_holds(self) -> None:
        """The totals and dead letters of another truth. Pinned orders of its catalogue last five minutes anyway."""
        await asyncio.gather(*(self._redis.call("UNLINK", key) for key in (*TOTALS_KEYS, DEAD_LETTERS_KEY)))
