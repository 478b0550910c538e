"""A friend-played view as it stands in Redis, whole: how it is written and how it is read back."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from signals.hash_payload import hash_payloads, packed_number, packed_text
from signals.redis import Argument
from signals.view_keys import BUCKETS

#: A row of `ec`: version, cursor, state; `<I8I4B` in Lua.
ROW = struct.Struct("<QIB")


_OFF = 0
_PULL = 2
_MAX_VERSION = 2**53  # Lua compares versions as doubles


class Row(NamedTuple):
    """What a view knows of a friend: version and state (0 off, 1 push, 2 pull) of the edge, and how far the friend's
    log is counted.
    """

    version: int
    state: int
    cursor: int


class View(NamedTuple):
    """A whole view at one moment. Its counts mean something when it is ready."""

    token: str
    rows: dict[int, Row]
    pull_owners: set[int]
    dirty: set[int]
    counts: dict[int, int]

    @property
    def ready(self) -> bool:
        """Whether it is built."""
        return self.token.startswith("R")


def decode_view(reply: Sequence[object]) -> View:
    """The view from what `view.lua` returns."""
    token, rows, pull_owners, dirty, *buckets = reply
    assert isinstance(token, bytes)  # noqa: S101  # for mypy: what hiredis gives is untyped
    return View(
        token.decode(),
        {int(owner): _row(row) for owner, row in _pairs(rows)},
        {int(owner) for owner in _texts(pull_owners)},
        {int(owner) for owner in _texts(dirty)},
        {int(field) * 64 + bucket: int(n) for bucket, flat in enumerate(buckets) for field, n in _pairs(flat)},
    )


def encode_view(edges: Mapping[int, tuple[int, int, int]], counts: Mapping[int, int]) -> list[Argument]:
    """What `build.lua` takes for a view.

    Args:
        edges: owner to (version, state, cursor); those that are off are left out.
        counts: game number to count.
    """
    rows: list[bytes] = []
    pull_owners: list[Argument] = []
    for owner_id, (version, state, cursor) in edges.items():
        if state != _OFF:
            row = ROW.pack(checked_version(version), cursor, state)
            rows += (packed_text(b"%d" % owner_id), packed_text(row))
            if state == _PULL:
                pull_owners.append(owner_id)
    buckets: list[list[bytes]] = [[] for _ in range(BUCKETS)]
    for number, count in counts.items():
        buckets[number & 63] += (packed_number(number >> 6), packed_number(count))
    return [*hash_payloads([rows]), *hash_payloads(buckets), *pull_owners]


def checked_version(version: int) -> int:
    """The version, where the scripts can compare it."""
    if not 0 <= version < _MAX_VERSION:
        raise ValueError(f"a version is 0..2**53-1, not {version}")
    return version


@lru_cache(maxsize=1024)
def packed_numbers(count: int) -> struct.Struct:
    """So many 32-bit numbers, little-endian: `<I4` of Lua's struct, each."""
    return struct.Struct(f"<{count}I")


def _row(packed: bytes) -> Row:
    version, cursor, state = ROW.unpack(packed)
    return Row(version, state, cursor)


def _texts(reply: object) -> list[bytes]:
    assert isinstance(reply, list)  # noqa: S101  # as above
    return reply


def _pairs(reply: object) -> Iterable[tuple[bytes, bytes]]:
    texts = iter(_texts(reply))
    return zip(texts, texts, strict=True)
