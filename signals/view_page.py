"""A page of a friend-played view: what `page.lua` is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from signals import view_keys
from signals.redis import Argument, Reply
from signals.view import packed_numbers

_BUCKET_MASK = view_keys.BUCKETS - 1
_SUFFIXES = [f":{bucket}" for bucket in range(view_keys.BUCKETS)]
_text = lru_cache(maxsize=4096)(str)  # pages ask for the same fields again and again


class Page(NamedTuple):
    """Counts in the order asked, and how far the view has the logs of the friends whose plays are pulled."""

    counts: Sequence[int]
    pull_cursors: dict[int, int]


def encode_page(viewer_id: int, numbers: Sequence[int]) -> tuple[list[Argument], list[Argument]]:
    """Keys and arguments of PAGE, for games by their numbers."""
    tag = view_keys.tag(viewer_id)
    bucket = f"fp:{tag}"
    keys: list[Argument] = [f"st:{tag}", f"pl:{tag}", f"ec:{tag}"]
    keys += [bucket + _SUFFIXES[number & _BUCKET_MASK] for number in numbers]
    return keys, [",".join([_text(number >> 6) for number in numbers])]


def decode_page(reply: Reply, count: int) -> Page:
    """The page of so many games."""
    pull_cursors = {int(reply[i]): reply[i + 1] for i in range(1, len(reply), 2)}
    return Page(packed_numbers(count).unpack(reply[0]), pull_cursors)
