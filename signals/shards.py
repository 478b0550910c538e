"""The 64 shards of derived state: which one a user's keys are on, and how keys are named.

`{t}` in a key is its hash tag, so a shard is one slot of a Redis Cluster.
"""

from __future__ import annotations

#: Number of shards. A constant: it is part of every key's name.
SHARDS = 64

_MIX = 0x9E3779B97F4A7C15  # 2**64 / golden ratio (Knuth, TAOCP 6.4): ids that share their low bits still spread
_MASK = 2**64 - 1


def shard_of(user_id: int) -> int:
    """The shard of a user: Fibonacci hashing, since ids of some platforms are all 0 modulo a power of two."""
    return ((user_id * _MIX) & _MASK) >> 58
