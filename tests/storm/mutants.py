"""One rule left out at a time, of views, of the pull side, of a Redis that forgets: what the schedules must notice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from events.event import Event
from events.publisher import Publisher
from events.redis_streams import Delivery
from loaders.pulled_friends import PulledFriends
from signals.fence import Fence, Witness
from signals.markers import Marker, ShardMarkers
from signals.outcome import Outcome
from signals.redis import Argument, Reply, Script, SharedRedis
from signals.views import FriendViews
from tests.mutated_script import mutated
from tests.storm.model_truth import ModelTruth
from tests.storm.worker_process import Parts
from workers.fan_out_consumer import Delivered, FanOutConsumer
from workers.markers import Markers
from workers.outbox_relay import OutboxRelay, event_of


@dataclass(frozen=True)
class Mutant:
    """A script of which one line was changed. `attribute` is where `FriendViews` keeps it."""

    rule: str
    attribute: str
    line: str
    instead: str

    def make(self, redis: SharedRedis, **options: Any) -> FriendViews:
        """Views without the rule."""
        views = FriendViews(redis, **options)
        setattr(views, self.attribute, mutated(getattr(views, self.attribute), self.line, self.instead))
        return views


class NoCatchUpAfterOldVersion(FriendViews):
    """Says "old version" in a way after which a worker does not catch up."""

    async def edge(
        self, viewer_id: int, owner_id: int, token: str | None, version: int, state: int, log: bytes = b""
    ) -> Outcome:
        outcome = await super().edge(viewer_id, owner_id, token, version, state, log)
        return Outcome.NOT_RESIDENT if outcome is Outcome.OLD_VERSION else outcome


_MUTANTS = [
    Mutant("apply checks that the entry is not counted yet", "_apply", "if cursor >= ordinal then", "if false then"),
    Mutant("apply checks that no entry is left out", "_apply", "elseif cursor < ordinal - 1 then", "elseif false then"),
    Mutant(
        "apply marks dirty what is being built", "_apply",
        "call('SADD', keys[2 * n + i], ARGV[3 + 3 * byte(entries, update)])", "",
    ),
    Mutant("apply leaves alone what is off", "_apply", "if seen == 0 then", "if not row then"),
    Mutant("catch-up begins at the cursor", "_catch_up", "part, cursor - before + 1, size", "part, 1, size"),
    Mutant("catch-up marks dirty what is being built", "_catch_up", "redis.call('SADD', KEYS[3], owner)", ""),
    Mutant("edge ignores old versions", "_edge", "if version <= last then return 7 end", ""),
    Mutant("edge refuses another token", "_edge", "if state ~= token then return 8 end", ""),
    Mutant("edge marks dirty what is being built", "_edge", "redis.call('SADD', KEYS[4], owner)\n", ""),
    Mutant("edge takes back what is before the cursor", "_edge", "log, 1, cursor,", "log, 1, #log / 4,"),
    Mutant(
        "edge keeps the cursor from pull to push", "_edge",
        "if seen == 0 and was ~= 0 then", "if was == 2 then cursor = 0 elseif seen == 0 and was ~= 0 then",
    ),
    Mutant(
        "build refuses another token", "_build",
        "if state ~= token then return {2} end", "if not state or string.byte(state) ~= 66 then return {2} end",
    ),
    Mutant("build hands dirty marks back", "_build", "if #dirty > 0 then", "if false then"),
    Mutant(
        "a round with dirty marks ends in a new token", "_build",
        "redis.call('SET', KEYS[1], following)", "following = token",
    ),
    Mutant(
        "a repeated claim clears nothing", "_claim",
        "if builder == nonce then return state end",
        "if builder == nonce then redis.call('DEL', KEYS[2]) return state end",
    ),
    Mutant("eviction is whole", "_evict", "unpack(KEYS, first, first + 67)", "unpack(KEYS, first + 1, first + 67)"),
]  # fmt: skip

MUTANTS: dict[str, Callable[..., FriendViews]] = {
    **{mutant.rule: mutant.make for mutant in _MUTANTS},
    "catch up after an old version too": NoCatchUpAfterOldVersion,
}


class NoCatchUpOnRead(PulledFriends):
    """Takes every cursor for one that stands at its log's end."""

    async def age_seconds(self, viewer_id: int, cursors: Mapping[int, int]) -> float | None:  # noqa: ARG002  # as the original
        return 0.0


#: Rules of the pull side: what a schedule is made with where one is left out.
PULL_MUTANTS: dict[str, dict[str, Any]] = {
    "a page catches up with pulled friends": {"make_pulled_friends": NoCatchUpOnRead},
}


# A Redis that forgets


class MutatedRedis(SharedRedis):
    """Runs scripts with some lines changed."""

    def __init__(self, shared: SharedRedis, lines: Mapping[str, str]) -> None:
        super().__init__(shared.client)
        self._lines = lines

    async def run(self, script: Script, keys: list[Argument], args: list[Argument]) -> Reply:
        for line, instead in self._lines.items():
            if line in script.source:
                script = copy(script)
                script.source = script.source.replace(line, instead)
                script.sha = hashlib.sha1(script.source.encode(), usedforsecurity=False).hexdigest()
        return await super().run(script, keys, args)


def _script(lines: dict[str, str]) -> Parts:
    return Parts(redis=lambda shared: MutatedRedis(shared, lines))


class AcknowledgesFirst(FanOutConsumer):
    async def _handle(self, batch: Sequence[Delivered]) -> None:
        await self._acknowledge([event.id for _, event in batch], [delivery for delivery, _ in batch])
        await self._held(lambda: self._fan_out.handle([event for _, event in batch]))


class StampsAfterTheStream(FanOutConsumer):
    async def _acknowledge(self, row_ids: Sequence[int], deliveries: Sequence[Delivery]) -> None:
        await super()._acknowledge([], deliveries)
        if row_ids and self._acknowledgements is not None:
            await self._acknowledgements.acknowledge(row_ids)


class TakesEventsOfAnyTruth(FanOutConsumer):
    def _is_of_another_truth(self, delivery: Delivery) -> bool:  # noqa: ARG002  # as the original
        return False


class ReadsLeaveNoTrace(Fence):
    async def read(self, redis: SharedRedis, shard: int, command: str, key: Argument, *args: Argument) -> Reply:
        return await Fence(self._truth_id).read(redis, shard, command, key, *args)


class MovesFirst(Markers):
    async def _mend(self, behind: Mapping[int, Marker], to_empty: Mapping[int, Marker], last: int) -> None:
        for shard, marker in behind.items():
            await self._markers.move(shard, marker, Marker(self._graph.truth_id, last))
        await super()._mend(behind, to_empty, last)


class MovesToWhatIsLastByThen(Markers):
    async def _mend(self, behind: Mapping[int, Marker], to_empty: Mapping[int, Marker], last: int) -> None:
        await self._graph.unacknowledge_after(min([last, *(marker.batch or 0 for marker in behind.values())]))
        last = await self._graph.acknowledged_batch()
        for shard, marker in behind.items():
            await self._markers.move(shard, marker, Marker(self._graph.truth_id, last))
        await self._empty(to_empty, last)


class EmptiesNothing(Markers):
    async def _empty_one(self, shard: int, found: Marker, last: int) -> None:
        await self._markers.move(shard, found, Marker(self._graph.truth_id, last))


class MissingIsFine(EmptiesNothing):
    async def _empty_one(self, shard: int, found: Marker, last: int) -> None:
        empty_one = EmptiesNothing._empty_one if found == Marker() else Markers._empty_one
        await empty_one(self, shard, found, last)


class AnyTruthIsFine(Markers):
    def _not_of_this_truth(self, found: Mapping[int, Marker], last: int) -> dict[int, Marker]:  # noqa: ARG002
        return {shard: marker for shard, marker in found.items() if marker.batch is None}


class EmptiesBeforeItSaysSo(Markers):
    async def _empty_one(self, shard: int, found: Marker, last: int) -> None:
        views = FriendViews(self._redis)
        await views.evict(await views.residents(shard))
        await self._markers.move(shard, found, Marker(self._graph.truth_id, last))


class EmptyingLeavesNoTrace(ShardMarkers):
    async def move(self, shard: int, found: Marker, to: Marker, emptied: Witness | None = None) -> bool:  # noqa: ARG002
        return await super().move(shard, found, to)


class LooksAtNothing(Markers):
    async def check(self) -> bool:
        return True


class LooksAtStreamsAlone(Markers):
    async def check(self) -> bool:
        return await self.publisher.stands()


class AppendsToAnything(Publisher):
    async def append(self, events: Sequence[Event]) -> bool:
        passed = await super().append(events)
        if not passed:
            await self.adopt()
            passed = await super().append(events)
        return passed


class MarksFirst(OutboxRelay):
    async def publish(self) -> int:
        assert self._markers is not None
        if not self._taken_over:
            await self._markers.take_over()
            self._taken_over = True
        rows = await self._graph.outbox(512)
        await self._graph.mark_published([row.id for row in rows])
        if rows and not await self._markers.publisher.append([event_of(row) for row in rows]):
            self._lose("an append did not pass")
        return len(rows)


class SeesNothingStand(OutboxRelay):
    async def _see_them_stand(self) -> None:
        return


class IgnoresWhatIsPurged(ModelTruth):
    async def unacknowledge_after(self, batch: int) -> int | None:
        self._connection.execute("UPDATE truth SET purged_batch = 0")
        return await super().unacknowledge_after(batch)


class KeepsNothing(ModelTruth):
    async def acknowledge(self, row_ids: Collection[int]) -> int:
        batch = await super().acknowledge(row_ids)
        self._connection.execute("DELETE FROM outbox WHERE acknowledged_batch IS NOT NULL")
        return batch


class TakesBackOnlyWhatWasStamped(ModelTruth):
    async def unacknowledge_after(self, batch: int) -> int | None:
        self._connection.execute(
            """
            UPDATE outbox SET acknowledged_batch = 0, acknowledged_at_ms = published_at_ms
            WHERE published_at_ms IS NOT NULL AND acknowledged_batch IS NULL
            """
        )
        return await super().unacknowledge_after(batch)


#: Rules of markers, acknowledgements and the relay: the parts of processes that leave one out.
MARKER_MUTANTS: dict[str, Parts] = {
    "apply before acknowledging": Parts(consumer=AcknowledgesFirst),
    "stamp in the truth before XACK": Parts(consumer=StampsAfterTheStream),
    "events of another truth are dropped": Parts(consumer=TakesEventsOfAnyTruth),
    "take back in the truth before a marker moves": Parts(markers=MovesFirst),
    "a marker moves to what was last before the taking back": Parts(markers=MovesToWhatIsLastByThen),
    "a shard that nobody can vouch for is emptied": Parts(markers=EmptiesNothing),
    "a missing marker empties its shard": Parts(markers=MissingIsFine),
    "another truth's marker empties its shard": Parts(markers=AnyTruthIsFine),
    "a shard is marked before it is emptied": Parts(markers=EmptiesBeforeItSaysSo),
    "emptying leaves a trace": Parts(shard_markers=EmptyingLeavesNoTrace),
    "the leader looks": Parts(markers=LooksAtNothing),
    "the leader looks at markers": Parts(markers=LooksAtStreamsAlone),
    "an append passes only where the stream is what was left": Parts(publisher=AppendsToAnything),
    "append before marking as published": Parts(relay=MarksFirst),
    "after marking, the relay sees that the append still stands": Parts(relay=SeesNothingStand),
    "what was purged cannot be told again": Parts(truth=IgnoresWhatIsPurged),
    "rows are kept after they are acknowledged": Parts(truth=KeepsNothing),
    "taking back tells again what was never acknowledged": Parts(truth=TakesBackOnlyWhatWasStamped),
    "what was only read leaves a trace too": Parts(fence=ReadsLeaveNoTrace),
    "a marker moves by compare and set": _script({"if truth ~= ARGV[1] or batch ~= ARGV[2] then": "if false then"}),
    "writers of another truth are kept out": _script(
        {"if fence_held and fence_held ~= fence_truth then": "if false then"}
    ),
    "a batch is settled only where its runs are": _script({"if found[i] == 0 then": "if false then"}),
    "a marker moves over no number that is not settled": _script(
        {"  if settled > batch then\n": "  settled = math.max(settled, tonumber(ARGV[2]))\n  if settled > batch then\n"}
    ),
    "only a marker of this truth is settled": _script(
        {"if redis.call('HGET', marker, 'truth') ~= ARGV[1] then": "if false then"}
    ),
}  # fmt: skip
