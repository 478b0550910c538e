"""One view compared with the truth, while the system runs.

The view is taken first, whole, in one script call; then the truth is read. Logs only grow and their first entries never
change, versions only grow: so whatever the truth was at the view's moment, these must hold at once, and are not waiting
for any event:

- the counts are the sums of the first `cursor` entries of the friends' logs (I1);
- no cursor stands past its log's end, no version above the truth's;
- the pulled friends are those whose rows say so.

That a row is missing, or has an older version or a cursor before the log's end, may be an event on its way. It is drift
where it is still so when every event that stood in the truth at that moment has been handled (`still_behind`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from graph.social_graph import SocialGraph
from graph.visibility import CursorState
from signals.view import Row, View
from signals.views import FriendViews


class Kind(StrEnum):
    """What is wrong with a pair. The first is about a viewer and a game, the others about a viewer and a friend."""

    COUNT = "count"
    PAST_LOG_END = "past-log-end"
    AHEAD = "ahead-of-truth"
    PULL_SET = "pull-set"
    MISSING = "missing"
    VERSION = "version"
    BEHIND = "behind"


class Drift(NamedTuple):
    """A pair that is wrong: what the view says and what it ought to say, in the kind's own terms (counts, cursors,
    versions). `number` is that of the game, `owner_id` the friend; the one that is not meant is 0.
    """

    kind: Kind
    owner_id: int
    number: int
    found: int
    expected: int


class Sight(NamedTuple):
    """How the truth had a friend: version and state of the pair, and the length of their log."""

    version: int
    state: CursorState
    length: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of comparing one view.

    `pairs` is how many counts and cursors were compared, `drift` what is wrong whatever is in flight, `behind` the
    friends of whom the view does not have what the truth has.
    """

    viewer_id: int
    token: str
    pairs: int = 0
    drift: list[Drift] = field(default_factory=list)
    behind: dict[int, Sight] = field(default_factory=dict)
    rows: Mapping[int, Row] = field(default_factory=dict)


async def compare(graph: SocialGraph, views: FriendViews, viewer_id: int) -> Comparison | None:
    """Compare a view with the truth; None where there is none, or it is being built.

    Raises:
        GraphError, redis.exceptions.RedisError: a store is away.
    """
    view = await views.view(viewer_id)
    if view is None or not view.ready:
        return None
    seen = await graph.seen_logs(viewer_id)
    unseen = view.rows.keys() - seen.keys()
    logs = {owner_id: owner.log for owner_id, owner in seen.items()}
    visible = {owner_id: (owner.version, owner.state) for owner_id, owner in seen.items()}
    if unseen:
        visible |= await graph.visibilities(viewer_id, unseen)
        logs |= await graph.play_logs(unseen)
    sights = {
        owner_id: Sight(version, CursorState(state), len(logs.get(owner_id, b"")) // 4)
        for owner_id, (version, state) in visible.items()
    }
    # A view of thousands of friends takes tens of milliseconds to add up: not in the loop that answers pages.
    return await asyncio.to_thread(_compare, viewer_id, view, logs, sights)


def still_behind(before: Comparison, now: Comparison) -> list[Drift]:
    """Of what a view lacked before, what it still lacks, though the events of then were handled in between."""
    lacking = {
        owner_id: drift for owner_id, sight in before.behind.items() if (drift := _lag(now.rows, owner_id, sight))
    }
    if now.token != before.token:
        # Built again meanwhile, maybe from a later truth, without rows of those who were off by then.
        lacking = {
            owner_id: drift
            for owner_id, drift in lacking.items()
            if (sight := now.behind.get(owner_id)) and sight.version == before.behind[owner_id].version
        }
    return list(lacking.values())


def _compare(viewer_id: int, view: View, logs: Mapping[int, bytes], sights: Mapping[int, Sight]) -> Comparison:
    drift = list(_wrong_rows(view, sights))
    counts = {number: count for number, count in view.counts.items() if count}
    expected = _sum(view.rows, logs)
    drift += [
        Drift(Kind.COUNT, 0, number, counts.get(number, 0), expected.get(number, 0))
        for number in sorted(counts.keys() | expected.keys())
        if counts.get(number, 0) != expected.get(number, 0)
    ]
    behind = {owner_id: sight for owner_id, sight in sights.items() if _lag(view.rows, owner_id, sight)}
    pairs = len(counts.keys() | expected.keys()) + len(sights)
    return Comparison(viewer_id, view.token, pairs, drift, behind, view.rows)


def _wrong_rows(view: View, sights: Mapping[int, Sight]) -> Iterator[Drift]:
    for owner_id, row in sorted(view.rows.items()):
        sight = sights[owner_id]
        if row.cursor > sight.length:
            yield Drift(Kind.PAST_LOG_END, owner_id, 0, row.cursor, sight.length)
        if row.version > sight.version:
            yield Drift(Kind.AHEAD, owner_id, 0, row.version, sight.version)
    pulled = {owner_id for owner_id, row in view.rows.items() if row.state == CursorState.PULL}
    for owner_id in sorted(view.pull_owners ^ pulled):
        yield Drift(Kind.PULL_SET, owner_id, 0, int(owner_id in view.pull_owners), int(owner_id in pulled))


def _sum(rows: Mapping[int, Row], logs: Mapping[int, bytes]) -> dict[int, int]:
    """What the counts have to be by I1: how many logs have each game at or before their cursor."""
    counted = b"".join(logs.get(owner_id, b"")[: 4 * row.cursor] for owner_id, row in rows.items())
    numbers, counts = np.unique(np.frombuffer(counted, "<u4"), return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def _lag(rows: Mapping[int, Row], owner_id: int, sight: Sight) -> Drift | None:
    """What a view lacks of a friend as the truth had them; None where it has that, or something later."""
    row = rows.get(owner_id)
    if row is None:
        # A view has no rows of those who were off when it was built.
        return None if sight.state is CursorState.OFF else Drift(Kind.MISSING, owner_id, 0, 0, sight.version)
    if row.state == CursorState.OFF == sight.state:
        # Versions of somebody who is no friend grow without being told: they change nothing.
        return None
    if row.version < sight.version or (row.version == sight.version and row.state != sight.state):
        return Drift(Kind.VERSION, owner_id, 0, row.version, sight.version)
    if row.version == sight.version and sight.state is CursorState.PUSH and row.cursor < sight.length:
        return Drift(Kind.BEHIND, owner_id, 0, row.cursor, sight.length)
    return None
