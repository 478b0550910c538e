"""One event of a subscription, as its resolver gives it to whoever executes the selection for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from loaders.page_watch import FriendPages


@dataclass(frozen=True, slots=True)
class Event:
    """What changed, not yet looked up: equal events of many subscribers are then looked up once.

    Args:
        rows: gives what the subscription's field is of.
        share: equal for events that are the same to everybody who asks the same; None: they are one viewer's own.
        friend_pages: what the subscriber is told of friend counts; None: they are read.
    """

    rows: Callable[[], Sequence[object]]
    share: Hashable | None = None
    friend_pages: FriendPages | None = None
