"""Views to test with: ids and numbers at the edges, and a view built from logs."""

from __future__ import annotations

import struct
from collections import Counter

from signals.views import BuildStatus, FriendViews

OFF, PUSH, PULL = 0, 1, 2
VIEWER = 2**63 - 1
#: Neighbours beyond 2**53: as doubles they are one.
FRIEND, OTHER = 2**62 + 1, 2**62 + 2
LAST_NUMBER = 2**32 - 1


def log(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


async def build(views: FriendViews, logs: dict[int, list[int]], *, state: int = PUSH, viewer: int = VIEWER) -> str:
    """A ready view that has these logs whole, at version 1. Returns its token."""
    token = await views.claim(viewer, f"nonce-{viewer}")
    assert token is not None
    edges = {owner: (1, state, len(numbers)) for owner, numbers in logs.items()}
    counts = Counter(number for numbers in logs.values() for number in numbers)
    assert (await views.build(viewer, token, "next", edges, counts)).status is BuildStatus.BUILT
    ready = await views.token(viewer)
    assert ready is not None
    return ready
