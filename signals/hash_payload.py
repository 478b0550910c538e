"""Whole hashes as Redis's RESTORE takes them.

HSET looks for each field in a listpack before it appends it, so that filling one costs the square of its size. RESTORE
knows that a hash names no field twice: a view of 5,000 friends and 16,000 games is written in a fifth of the time.

The format is that of DUMP (https://redis.io/commands/dump, rdb.c and crc64.c of Redis): a type, the number of pairs,
each field and value after its length, the version of the format, and a CRC of all this. Redis makes a listpack or a
table of it by its own limits, as with HSET.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy
from numpy.typing import NDArray

_HASH = b"\x04"  # RDB_TYPE_HASH: pairs of strings, in every version of the format
_VERSION = (9).to_bytes(2, "little")  # that of Redis 5 to 6.2; later ones read it too
_POLYNOMIAL = 0x95AC9329AC4BC9B5  # 64 bits, "Jones", reflected; begins with 0 and ends as it is
_BLOCK = 256  # bytes
_LONGEST = 63


def hash_payloads(hashes: Sequence[Sequence[bytes]]) -> list[bytes]:
    """What RESTORE takes for some hashes.

    Args:
        hashes: of each hash, field, value, field, value, …, all packed by `packed_text` or `packed_number`; no field
            twice.

    Returns:
        A payload a hash; empty for an empty one, which Redis does not have.
    """
    bodies = [_body(pairs) if pairs else b"" for pairs in hashes]
    return [body + crc if body else b"" for body, crc in zip(bodies, crc64(bodies), strict=True)]


def crc64(texts: Sequence[bytes]) -> list[bytes]:
    """The CRC-64 of each text as Redis computes it, little-endian. All are as much work as the longest."""
    blocks = -(-max(map(len, texts), default=0) // _BLOCK)
    # Bytes 0 at the beginning change nothing in a CRC that begins with 0.
    padded = b"".join([text.rjust(blocks * _BLOCK, b"\0") for text in texts])
    rows = numpy.frombuffer(padded, "u1").reshape(len(texts), blocks, _BLOCK)
    crcs = numpy.zeros(len(texts), "<u8")
    for block in range(blocks):
        data = rows[:, block].copy()
        data[:, :8] ^= crcs.view("u1").reshape(-1, 8)
        crcs = numpy.bitwise_xor.reduce(_OF_BYTE_AT[_PLACES, data], axis=1)
    return [crc.tobytes() for crc in crcs]


def packed_text(text: bytes) -> bytes:
    """A field or value after its length.

    Raises:
        ValueError: it is longer than 63 bytes; beyond, the length takes more than one byte.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"a field or value of a hash has {_LONGEST} bytes at most here, not {len(text)}")
    return b"%c%b" % (len(text), text)


@lru_cache(maxsize=4096)
def packed_number(number: int) -> bytes:
    """The same of a number's decimal digits."""
    return packed_text(b"%d" % number)


def _body(pairs: Sequence[bytes]) -> bytes:
    return b"".join([_HASH, _length(len(pairs) // 2), *pairs, _VERSION])


def _length(count: int) -> bytes:
    if count < 1 << 6:
        return bytes((count,))
    if count < 1 << 14:
        return (0x4000 | count).to_bytes(2, "big")
    return b"\x80" + count.to_bytes(4, "big")


def _tables() -> NDArray[numpy.uint64]:
    """The CRC of each byte at each place of a block, what follows it being 0."""
    crcs = numpy.arange(256, dtype="<u8")
    one, eight, low = numpy.uint64(1), numpy.uint64(8), numpy.uint64(255)
    for _ in range(8):
        crcs = numpy.where(crcs & one, (crcs >> one) ^ numpy.uint64(_POLYNOMIAL), crcs >> one)
    tables = [crcs]
    for _ in range(_BLOCK - 1):
        tables.append((tables[-1] >> eight) ^ crcs[tables[-1] & low])
    return numpy.array(tables[::-1])


_OF_BYTE_AT = _tables()
_PLACES = numpy.arange(_BLOCK)
