"""The Redis keys of a friend-played view.

`{t}` is the viewer's shard and the keys' hash tag, f the viewer:

- `st:{t}f` token: `B:nonce:seconds:microseconds` while being built, `R:…` when ready
- `ec:{t}f` hash: owner to row (version, cursor, state)
- `pl:{t}f` set: owners whose plays are pulled
- `dt:{t}f` set: owners that changed while the view was being built
- `fp:{t}f:b` hash: field g // 64 to count, for the games whose number g is b modulo 64
- `lr:{t}` sorted set: the shard's viewers by last read, Unix seconds
"""

from __future__ import annotations

import numpy

from signals.shards import shard_of

BUCKETS = 64


def tag(viewer_id: int) -> str:
    """What follows the prefix in the keys of a view."""
    return f"{{{shard_of(viewer_id)}}}{viewer_id}"


def last_reads(shard: int) -> str:
    """The key of a shard's last reads."""
    return f"lr:{{{shard}}}"


def buckets(tag: str) -> list[str]:
    """The keys of all counts of a view."""
    return [f"fp:{tag}:{bucket}" for bucket in range(BUCKETS)]


def buckets_of_log(tag: str, log: bytes) -> tuple[list[str], bytes]:
    """The keys that a log's games are counted in, each once, and their buckets as bytes in the same order."""
    found = numpy.unique(numpy.frombuffer(log, "<u4") & (BUCKETS - 1)).astype("u1").tobytes()
    return [f"fp:{tag}:{bucket}" for bucket in found], found


def whole_view(tag: str) -> list[str]:
    """Every key of a view but `lr`, which it shares with its shard."""
    return [f"st:{tag}", f"ec:{tag}", f"pl:{tag}", f"dt:{tag}", *buckets(tag)]
