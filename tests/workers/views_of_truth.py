"""Views built from the truth, and what each ought to hold."""

from __future__ import annotations

import secrets
from collections import Counter

from graph.social_graph import SocialGraph
from signals.views import BuildStatus, FriendViews


def numbers_of(log: bytes) -> list[int]:
    """The game numbers of a packed log."""
    return [int.from_bytes(log[i : i + 4], "little") for i in range(0, len(log), 4)]


async def true_counts(graph: SocialGraph, viewer_id: int) -> dict[int, int]:
    """What a view of this viewer has to hold, by plain counting."""
    seen = await graph.seen_logs(viewer_id)
    return dict(Counter(number for owner in seen.values() for number in numbers_of(owner.log)))


async def build_view(graph: SocialGraph, views: FriendViews, viewer_id: int) -> None:
    """Make a viewer resident, as a first read does."""
    token = await views.claim(viewer_id, secrets.token_hex(8))
    assert token is not None
    await finish_build(graph, views, viewer_id, token)


async def finish_build(graph: SocialGraph, views: FriendViews, viewer_id: int, token: str) -> None:
    """Build a view that was claimed, again for as long as friends change meanwhile."""
    while True:
        seen = await graph.seen_logs(viewer_id)
        edges = {
            owner: (seen_log.version, int(seen_log.state), len(seen_log.log) // 4) for owner, seen_log in seen.items()
        }
        counts = Counter(number for owner in seen.values() for number in numbers_of(owner.log))
        result = await views.build(viewer_id, token, secrets.token_hex(8), edges, counts)
        if result.status == BuildStatus.BUILT:
            return
        assert result.status == BuildStatus.DIRTY
        token = result.token
