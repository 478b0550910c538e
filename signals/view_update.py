"""Updates of friend-played views, and how `apply.lua` takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from signals import view_keys
from signals.redis import Argument


class Update(NamedTuple):
    """Entry `ordinal` (1, 2, 3 …) of the owner's log is game `number`; to be counted in the viewer's view."""

    viewer_id: int
    owner_id: int
    ordinal: int
    number: int


def encode_updates(updates: Sequence[Update]) -> tuple[list[Argument], list[Argument]]:
    """Keys and arguments of APPLY.

    Args:
        updates: at most 255, of one shard, those of one viewer side by side.
    """
    sizes = Counter([update.viewer_id for update in updates])  # in the order of the updates
    tags = {viewer_id: view_keys.tag(viewer_id) for viewer_id in sizes}
    keys: list[Argument] = [f"{name}:{tag}" for name in ("st", "ec", "dt") for tag in tags.values()]
    keys += [f"fp:{tags[update.viewer_id]}:{update.number & 63}" for update in updates]
    entries: dict[tuple[int, int, int], int] = {}
    places = bytes([entries.setdefault(update[1:], len(entries)) for update in updates])
    args: list[Argument] = [bytes(sizes.values()), places]
    for owner_id, ordinal, number in entries:
        args += (owner_id, ordinal, number >> 6)
    return keys, args
