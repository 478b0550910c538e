"""Friend-played views: for each active viewer, how many friends played each game, exact by a cursor a friendship.

A user's plays are a log; a view is a subscriber to its friends' logs, with one cursor a friend. Counts and cursors
move in one script, so a repeated, late or reordered call finds its cursor past it and changes nothing. The scripts,
each with its keys and what it keeps, are `signals/lua/{page,apply,catchup,edge,claim,build,evict,view}.lua`.

Every method raises `redis.exceptions.RedisError` when Redis does not do what it was asked. A call may then have been
done or not, and repeating it is harmless.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence

from redis.exceptions import AskError, MovedError, TryAgainError

from signals import view_keys
from signals.fence import Fence
from signals.outcome import BuildResult, BuildStatus, Outcome
from signals.redis import Argument, Reply, Script, SharedRedis, script
from signals.shards import SHARDS, shard_of
from signals.view import View, checked_version, decode_view, encode_view
from signals.view_page import Page, decode_page, encode_page
from signals.view_update import Update, encode_updates

__all__ = ["BuildResult", "BuildStatus", "FriendViews", "Outcome", "Page", "Update"]

#: Updates one APPLY carries: 800 keys at most, two milliseconds of Redis. At most 255: they are told by one byte.
UPDATES_A_CALL = 200
#: Entries of a log one CATCHUP carries: some milliseconds of Redis, where they go into buckets of hundreds of games.
ENTRIES_A_CALL = 1_000
#: Views one EVICT carries: 68 keys each.
EVICTIONS_A_CALL = 50
#: A build older than this counts as dead, and another builder may take over.
DEAD_BUILD_SECONDS = 10.0

_OFF = 0
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}  # by the number that scripts answer
_HALF_MOVED = (TryAgainError, AskError, MovedError)  # what a slot on its way to another node answers
_TRY_AGAIN_SECONDS = (0.01, 0.03, 0.1, 0.3)


class FriendViews:
    """The friend-played views of all shards.

    Args:
        redis: where they are.
        dead_build_seconds: age after which a build counts as dead.
        fence: what scripts that write are run behind; None where there is one truth for certain (tests), and to evict
            what is of another.
    """

    def __init__(
        self, redis: SharedRedis, *, dead_build_seconds: float = DEAD_BUILD_SECONDS, fence: Fence | None = None
    ) -> None:
        self._redis = redis
        self._fence = fence
        self._dead_build_microseconds = int(dead_build_seconds * 1_000_000)
        self._page = script("page", read_only=True)
        self._view = script("view", read_only=True)
        self._apply = script("apply")
        self._catch_up = script("catchup", prelude="count_entries")
        self._edge = script("edge", prelude="count_entries")
        self._claim = script("claim")
        self._build = script("build")
        self._evict = script("evict")

    # Reading

    async def page(self, viewer_id: int, numbers: Sequence[int]) -> Page | None:
        """The counts of some games in one round trip, or None where the view is absent, being built or being moved.

        Args:
            viewer_id: who looks.
            numbers: game numbers, a few thousand at most.
        """
        keys, args = encode_page(viewer_id, numbers)
        try:
            reply = await self._redis.run(self._page, keys, args)
        except _HALF_MOVED:
            return None
        return None if reply is None else decode_page(reply, len(numbers))

    async def view(self, viewer_id: int) -> View | None:
        """Everything of one view at one moment, for audits and tests; None where there is none."""
        tag = view_keys.tag(viewer_id)
        reply = await self._redis.run(self._view, [*view_keys.whole_view(tag)], [])
        return None if reply is None else decode_view(reply)

    async def counts(self, viewer_id: int) -> dict[int, int] | None:
        """The count of every game that a friend played, by number; None where the view is not ready."""
        view = await self.view(viewer_id)
        return view.counts if view is not None and view.ready else None

    async def token(self, viewer_id: int) -> str | None:
        """What stands in `st`: the token of the view or of its builder; None where there is neither."""
        key = f"st:{view_keys.tag(viewer_id)}"
        if self._fence is None:
            reply = await self._redis.call("GET", key)
        else:
            reply = await self._fence.read(self._redis, shard_of(viewer_id), "GET", key)
        return None if reply is None else reply.decode()

    # Building and leaving

    async def claim(self, viewer_id: int, nonce: str) -> str | None:
        """Become the builder of a view. Read the truth after this, never before.

        Args:
            viewer_id: whose view.
            nonce: a random text without ":", for this build alone.

        Returns:
            The token to build with, or None: the view is ready, or somebody has begun to build it in the last seconds.
        """
        tag = view_keys.tag(viewer_id)
        shard = shard_of(viewer_id)
        keys: list[Argument] = [f"st:{tag}", f"dt:{tag}", view_keys.last_reads(shard)]
        reply = await self._run(self._claim, shard, keys, [nonce, viewer_id, self._dead_build_microseconds])
        return None if reply is None else reply.decode()

    async def build(
        self,
        viewer_id: int,
        token: str,
        next_nonce: str,
        edges: Mapping[int, tuple[int, int, int]],
        counts: Mapping[int, int],
    ) -> BuildResult:
        """Write a whole view.

        Args:
            viewer_id: whose view.
            token: what `claim`, or the DIRTY build before, returned.
            next_nonce: a random text without ":", for the next round, should this one be DIRTY.
            edges: owner to (version, state, cursor); edges that are off are left out.
            counts: game number to count, summed from exactly the entries before those cursors.
        """
        tag = view_keys.tag(viewer_id)
        shard = shard_of(viewer_id)
        keys: list[Argument] = [f"st:{tag}", f"ec:{tag}", f"pl:{tag}", f"dt:{tag}"]
        keys += [view_keys.last_reads(shard), *view_keys.buckets(tag)]
        args: list[Argument] = [token, next_nonce, viewer_id, *encode_view(edges, counts)]
        status, *rest = await self._run(self._build, shard, keys, args)
        if status != BuildStatus.DIRTY:
            return BuildResult(BuildStatus(status))
        following, dirty = rest
        return BuildResult(BuildStatus.DIRTY, following.decode(), [int(owner) for owner in dirty])

    async def evict(self, viewer_ids: Sequence[int]) -> None:
        """Drop these views, ready or being built. The next read builds them again."""
        calls = []
        for shard, viewers in _by_shard(viewer_ids).items():
            for start in range(0, len(viewers), EVICTIONS_A_CALL):
                part = viewers[start : start + EVICTIONS_A_CALL]
                keys: list[Argument] = [view_keys.last_reads(shard)]
                for viewer_id in part:
                    keys += view_keys.whole_view(view_keys.tag(viewer_id))
                calls.append(self._run(self._evict, shard, keys, [*part]))
        await _all(calls)

    # What fan-out does

    async def apply(self, updates: Sequence[Update]) -> list[Outcome]:
        """Count entries of play logs in views; one script call a shard and `UPDATES_A_CALL`.

        Returns:
            An outcome an update. After a GAP read the owner's log and `catch_up`; the others need nothing more.
        """
        places: dict[int, list[int]] = defaultdict(list)
        for place, update in enumerate(updates):
            places[shard_of(update.viewer_id)].append(place)
        parts: list[list[int]] = []
        for in_shard in places.values():
            in_shard.sort(key=lambda place: updates[place].viewer_id)  # those of one view together, in their order
            parts += [in_shard[start : start + UPDATES_A_CALL] for start in range(0, len(in_shard), UPDATES_A_CALL)]
        replies = await _all([self._apply_part([updates[place] for place in part]) for part in parts])
        outcomes = [Outcome.NOT_RESIDENT] * len(updates)
        for part, reply in zip(parts, replies, strict=True):
            for place, outcome in zip(part, reply, strict=True):
                outcomes[place] = _OUTCOMES[outcome]
        return outcomes

    async def _apply_part(self, updates: Sequence[Update]) -> Reply:
        keys, args = encode_updates(updates)
        return await self._run(self._apply, shard_of(updates[0].viewer_id), keys, args)

    async def edge(
        self, viewer_id: int, owner_id: int, token: str | None, version: int, state: int, log: bytes = b""
    ) -> Outcome:
        """Tell a view how the viewer sees an owner.

        Args:
            viewer_id: whose view.
            owner_id: whose plays.
            token: what `token` said before version and state were read from the truth.
            version: version of the pair.
            state: 0 off, 1 push, 2 pull.
            log: when off, the owner's whole log, packed.

        Returns:
            After APPLIED and OLD_VERSION of an edge that is on: now read the owner's log and `catch_up`. STALE_TOKEN:
            begin again with the token. PAST_LOG_END: evict the view.
        """
        tag = view_keys.tag(viewer_id)
        keys: list[Argument] = [f"st:{tag}", f"ec:{tag}", f"pl:{tag}", f"dt:{tag}"]
        args: list[Argument] = [owner_id, token or "", checked_version(version), int(state)]
        if state == _OFF:
            bucket_keys, buckets = view_keys.buckets_of_log(tag, log)
            keys += bucket_keys
            args += (log, buckets)
        else:
            args += (b"", b"")
        return Outcome(await self._run(self._edge, shard_of(viewer_id), keys, args))

    async def catch_up(self, viewer_id: int, owner_id: int, log: bytes) -> Outcome:
        """Count everything of an owner's log that lies past the cursor.

        Args:
            viewer_id: whose view.
            owner_id: whose plays.
            log: the owner's whole log, packed.

        Returns:
            PAST_LOG_END: this log was read before others counted more of it, or the view is not of this truth. Evict.
        """
        length = len(log) // 4
        before, applied = max(0, length - ENTRIES_A_CALL), False  # a cursor mostly stands close to the end
        while True:
            part = log[4 * before : 4 * (before + ENTRIES_A_CALL)]
            outcome, *cursor = await self._catch_up_part(viewer_id, owner_id, part, before, length)
            applied = applied or outcome == Outcome.APPLIED
            if not cursor or cursor[0] >= length:
                return Outcome.APPLIED if applied and cursor else Outcome(outcome)
            before = cursor[0]

    async def _catch_up_part(self, viewer_id: int, owner_id: int, part: bytes, before: int, length: int) -> Reply:
        tag = view_keys.tag(viewer_id)
        bucket_keys, buckets = view_keys.buckets_of_log(tag, part)
        keys: list[Argument] = [f"st:{tag}", f"ec:{tag}", f"dt:{tag}", *bucket_keys]
        return await self._run(self._catch_up, shard_of(viewer_id), keys, [owner_id, part, buckets, before, length])

    # Who is read

    async def touch(self, viewer_ids: Sequence[int], now_seconds: float) -> None:
        """These views were read now (Unix seconds). A view that has left stays away."""
        calls = []
        for shard, viewers in _by_shard(viewer_ids).items():
            members = [part for viewer_id in viewers for part in (now_seconds, viewer_id)]
            calls.append(self._redis.call("ZADD", view_keys.last_reads(shard), "XX", "GT", *members))
        await _all(calls)

    async def idle(self, before_seconds: float, limit: int) -> list[int]:
        """Up to `limit` viewers whose views were last read before a time (Unix seconds)."""
        range_ = ("-inf", f"({before_seconds!r}", "BYSCORE", "LIMIT", 0, limit)
        replies = await _all(
            self._redis.call("ZRANGE", view_keys.last_reads(shard), *range_) for shard in range(SHARDS)
        )
        return [int(viewer) for reply in replies for viewer in reply][:limit]

    async def residents(self, shard: int) -> list[int]:
        """The viewers of a shard who have a view, or one being built, those read longest ago first."""
        return [int(viewer) for viewer in await self._redis.call("ZRANGE", view_keys.last_reads(shard), 0, -1)]

    async def resident_count(self) -> int:
        """How many views there are, those being built included."""
        return sum(await _all(self._redis.call("ZCARD", view_keys.last_reads(shard)) for shard in range(SHARDS)))

    async def _run(self, script: Script, shard: int, keys: list[Argument], args: list[Argument]) -> Reply:
        # A writing script on a slot that is half moved has done nothing; the move takes moments.
        for seconds in _TRY_AGAIN_SECONDS:
            try:
                return await self._run_once(script, shard, keys, args)
            except TryAgainError:
                await asyncio.sleep(seconds)
        return await self._run_once(script, shard, keys, args)

    async def _run_once(self, script: Script, shard: int, keys: list[Argument], args: list[Argument]) -> Reply:
        if self._fence is None:
            return await self._redis.run(script, keys, args)
        return await self._fence.run(self._redis, script, shard, keys, args)


def _by_shard(viewer_ids: Sequence[int]) -> dict[int, list[int]]:
    shards: dict[int, list[int]] = defaultdict(list)
    for viewer_id in viewer_ids:
        shards[shard_of(viewer_id)].append(viewer_id)
    return shards


async def _all(calls: Iterable[Awaitable[Reply]]) -> list[Reply]:
    """Replies of calls made at once; waits for all of them before it raises what one of them raised."""
    replies = await asyncio.gather(*calls, return_exceptions=True)
    for reply in replies:
        if isinstance(reply, BaseException):
            raise reply
    return replies
