"""Fan-out: what a change of the truth does to the views of those who see it.

Every step may run twice, late, or beside another of the same change: the scripts on views hold cursors and versions,
and say why they changed nothing. So nothing here remembers past events, and the order of events only saves work.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from events.event import Event
from graph.social_graph import SocialGraph
from graph.visibility import CursorState, Visibility, is_deleted
from signals.shards import SHARDS
from signals.views import FriendViews, Outcome, Update
from workers.live_visibility import LiveVisibility

T = TypeVar("T")

#: What is held in memory and under way at once.
UPDATES_AT_ONCE = 8_192
VIEWERS_AT_ONCE = 512
LOGS_AT_ONCE = 256
#: Rounds against a view that is evicted and built again each time; then it is evicted, which is always right.
ROUNDS = 5


class Pair(NamedTuple):
    """A viewer, and a friend (or former friend) whose plays their view may count."""

    viewer_id: int
    owner_id: int


class FanOut:
    """Brings the views of all who are concerned, and the live counts, up to what the truth says.

    Args:
        graph: the truth.
        views: the views.
        live: tells live sessions who is hidden or deleted; None where there are none, for tests of views alone.
    """

    def __init__(self, graph: SocialGraph, views: FriendViews, live: LiveVisibility | None = None) -> None:
        self._graph = graph
        self._views = views
        self._live = live

    async def handle(self, events: Sequence[Event]) -> None:
        """Apply events. When it returns, every view holds what they tell, or will when its builder is done.

        Raises:
            Whatever the stores raise; then any part may have been applied, and all of it may be handled again.
        """
        plays = [event for event in events if event.kind == "play"]
        grown = {event.user_id for event in events if event.kind == "log"}
        changed = {event.user_id for event in events if event.kind == "user"}
        if plays or grown:
            pulled = await self._pulled()
            plays = [play for play in plays if play.user_id not in pulled]
            grown -= pulled
        owners = {event.user_id for event in plays} | grown | changed
        friends = await self._graph.friends(owners) if owners else {}

        if changed:
            await self._change_users(changed)
        await self._apply(plays, friends)
        await self._catch_up_residents({owner: friends[owner] for owner in grown})
        concerned: defaultdict[int, set[int]] = defaultdict(set)
        for event in events:
            if event.kind == "edge":
                concerned[event.user_id].add(event.other_id)
                concerned[event.other_id].add(event.user_id)
        for owner in changed:
            for viewer in friends[owner]:
                concerned[viewer].add(owner)
        for viewers in _slices(sorted(concerned), VIEWERS_AT_ONCE):
            await self._carry_visibility({viewer: concerned[viewer] for viewer in viewers})

    async def evict_concerned(self, event: Event) -> None:
        """Evict every view that the event may have had to change: they are built again from the truth, which has it."""
        if event.kind == "edge":
            viewers = [event.user_id, event.other_id]
        else:
            viewers = (await self._graph.friends([event.user_id]))[event.user_id]
        for part in _slices(viewers, VIEWERS_AT_ONCE):
            await self._views.evict(part)
        if event.kind == "user" and self._live is not None:
            await self._live.forget([event.user_id])

    async def evict_all(self) -> None:
        """Evict every view, and have all shards load anew who is hidden: whom a change concerned cannot be known."""
        for shard in range(SHARDS):
            for part in _slices(await self._views.residents(shard), VIEWERS_AT_ONCE):
                await self._views.evict(part)
        if self._live is not None:
            await self._live.forget_all()

    async def _change_users(self, users: Collection[int]) -> None:
        """Tell live sessions whose count, and drop the views of those who are deleted: nobody reads them any more."""
        if self._live is not None:
            states = await self._live.carry(users)
            await self._views.evict(sorted(user for user, state in states.items() if is_deleted(state)))

    async def _apply(self, plays: Sequence[Event], friends: Mapping[int, list[int]]) -> None:
        """Count each play in the views of the owner's friends, and close the gaps that are met."""
        updates = (
            Update(viewer, play.user_id, play.ordinal, play.number)
            # A log's entries in their order, whatever the deliveries' order was: fewer gaps.
            for play in sorted(plays, key=lambda play: (play.user_id, play.ordinal))
            for viewer in friends[play.user_id]
        )
        for part in _slices(updates, UPDATES_AT_ONCE):
            outcomes = await self._views.apply(part)
            behind = {
                Pair(update.viewer_id, update.owner_id)
                for update, outcome in zip(part, outcomes, strict=True)
                if outcome in (Outcome.GAP, Outcome.PAST_LOG_END)
            }
            await self._catch_up(behind)

    async def _pulled(self) -> set[int]:
        """Those whose plays are read by their many friends' pages and not pushed to them.

        It is asked after the plays are known, and that is what makes it right to leave out whom it names, however the
        flag moves meanwhile. Let play n be committed at t0, and the flag be read as set at t1, t0 < t1. A view f holds
        owner p in one of these ways:

        - pull: the page compares and catches up, whatever the flag is by then.
        - push, since the event that set the flag is still to come, or is with another worker: it runs EDGE to pull, or
          marks f dirty for its builder, and f is as above. That event is acknowledged after it was done, never before.
        - push again, since the flag was cleared at t2. Had it been cleared before t1 and f been caught up before t0, n
          would be lost: so the flag is never remembered from an earlier batch. But it was set at t1, so t1 < t2, and
          whoever carries the clearing runs EDGE after t2 and then reads the log, which has n since t0; after "old
          version" too. Its builder, if f is being built, reads p again for the mark that EDGE leaves.
        - being built, from what was read before t0: as pull, and then as the first; as push, and then the flag was set
          after that read, and its event marks f dirty or finds it built.
        - not at all: whoever builds f from now on reads the log after t0.

        Whom it does not name is pushed, and APPLY counts a play once in a row that is push or pull alike. A log that
        grew by an import is a play in all of this.
        """
        return set(await self._graph.pulled_logs())

    async def _catch_up_residents(self, friends: Mapping[int, Sequence[int]]) -> None:
        """Catch up with each owner's log in the views of their friends that exist."""
        viewers = {viewer for of_owner in friends.values() for viewer in of_owner}
        residents: set[int] = set()
        for part in _slices(sorted(viewers), VIEWERS_AT_ONCE):
            residents.update(await self._tokens(part))
        await self._catch_up(
            {Pair(viewer, owner) for owner, of_owner in friends.items() for viewer in of_owner if viewer in residents}
        )

    async def _tokens(self, viewers: Collection[int]) -> dict[int, str]:
        """The tokens of the views that exist, in one round trip; the rest may be left alone.

        A builder sets its token first and reads the truth afterwards. Where there is no token now, whoever builds the
        view from now on reads a truth that holds the change that is being handled.
        """
        tokens = await _all(self._views.token(viewer) for viewer in viewers)
        return {viewer: token for viewer, token in zip(viewers, tokens, strict=True) if token is not None}

    async def _catch_up(self, pairs: Iterable[Pair]) -> None:
        """Read the owners' logs, then apply to each view what lies past its cursor."""
        for part in _slices(sorted(pairs), LOGS_AT_ONCE):
            # A cursor may pass the end of a log that was read just before the owner played again: read it once more.
            past = await self._catch_up_once(part)
            past = await self._catch_up_once(past)
            if past:
                await self._views.evict(sorted({pair.viewer_id for pair in past}))

    async def _catch_up_once(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Catch up, and return the pairs whose cursor stands past the log's end."""
        if not pairs:
            return []
        logs = await self._graph.play_logs({pair.owner_id for pair in pairs})
        outcomes = await _all(self._views.catch_up(*pair, logs.get(pair.owner_id, b"")) for pair in pairs)
        return [pair for pair, outcome in zip(pairs, outcomes, strict=True) if outcome == Outcome.PAST_LOG_END]

    async def _carry_visibility(self, owners: Mapping[int, Collection[int]]) -> None:
        """Carry what each viewer sees of some owners into the viewer's view, if there is one.

        The token is read before the truth, and EDGE refuses once it changed: what was read then may be older than the
        view.
        """
        for _ in range(ROUNDS):
            tokens = await self._tokens(owners)
            if not tokens:
                return
            seen = await _all(self._graph.visibilities(viewer, owners[viewer]) for viewer in tokens)
            visible = {
                Pair(viewer, owner): visibility
                for viewer, of_viewer in zip(tokens, seen, strict=True)
                for owner, visibility in of_viewer.items()
            }
            refused: defaultdict[int, set[int]] = defaultdict(set)
            for part in _slices(visible, LOGS_AT_ONCE):
                for pair in await self._edges({pair: visible[pair] for pair in part}, tokens):
                    refused[pair.viewer_id].add(pair.owner_id)
            owners = refused
            if not owners:
                return
        await self._views.evict(sorted(owners))

    async def _edges(self, visible: Mapping[Pair, Visibility], tokens: Mapping[int, str]) -> list[Pair]:
        """Run EDGE for each pair, catch up where it is on, and return the pairs that were refused."""
        off = {pair.owner_id for pair, visibility in visible.items() if visibility.state == CursorState.OFF}
        logs = await self._graph.play_logs(off) if off else {}
        outcomes = await _all(
            self._views.edge(
                *pair,
                tokens[pair.viewer_id],
                version,
                state,
                logs.get(pair.owner_id, b"") if state == CursorState.OFF else b"",
            )
            for pair, (version, state) in visible.items()
        )
        answers = dict(zip(visible, outcomes, strict=True))
        # The log is read after EDGE: a play between the two is in the log or finds the row on. OLD_VERSION too, since
        # the worker that brought that version may have died before it caught up.
        await self._catch_up(
            pair
            for pair, outcome in answers.items()
            if visible[pair].state != CursorState.OFF and outcome in (Outcome.APPLIED, Outcome.OLD_VERSION)
        )
        return [pair for pair, outcome in answers.items() if outcome in (Outcome.STALE_TOKEN, Outcome.PAST_LOG_END)]


async def _all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all calls, also when one fails: nothing of a failed batch is still under way when it is tried again."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    results: list[T] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        results.append(answer)
    return results


def _slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most `size`."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
