"""Hashes written by RESTORE are what HSET would have made of them."""

from __future__ import annotations

import pytest

from signals.hash_payload import crc64, hash_payloads, packed_number, packed_text
from signals.redis import SharedRedis


def test_the_crc_is_that_of_redis() -> None:
    """The check value of CRC-64/Jones, as Redis's own test has it; texts of other lengths beside it change nothing."""
    check = 0xE9C6D914C4B8D9CA.to_bytes(8, "little")
    assert crc64([b"123456789", b"", b"a" * 5000, b"123456789"])[::3] == [check, check]
    assert crc64([]) == []


@pytest.mark.parametrize("size", [1, 63, 64, 512, 513, 16_383, 16_384])
async def test_redis_reads_every_size_as_hset_would_write_it(shared_redis: SharedRedis, size: int) -> None:
    pairs = {b"%d" % number: b"%d" % (number * 37) for number in range(2**32 - 1, 2**32 - 1 - size, -1)}
    pairs[b"4294967295"] = bytes(range(63))  # as long as one may be; no text and no number
    packed = [packed for field, value in pairs.items() for packed in (packed_number(int(field)), packed_text(value))]
    (payload,) = hash_payloads([packed])
    await shared_redis.call("RESTORE", "restored", 0, payload)
    await shared_redis.call("HSET", "set", *[text for pair in pairs.items() for text in pair])
    assert await shared_redis.call("HGETALL", "restored") == pairs
    restored, by_hset = [await shared_redis.call("OBJECT", "ENCODING", key) for key in ("restored", "set")]
    assert restored == by_hset
    restored, by_hset = [await shared_redis.call("MEMORY", "USAGE", key, "SAMPLES", 0) for key in ("restored", "set")]
    assert restored <= by_hset * 1.02 + 8  # the keys' names differ in length


def test_an_empty_hash_has_no_payload_and_spoils_none_beside_it() -> None:
    pairs = [packed_number(1), packed_number(2)]
    assert hash_payloads([[], pairs, []]) == [b"", *hash_payloads([pairs]), b""]
    assert hash_payloads([]) == []


def test_a_text_whose_length_needs_two_bytes_is_refused() -> None:
    assert packed_text(b"a" * 63) == b"?" + b"a" * 63
    with pytest.raises(ValueError, match="63 bytes at most here, not 64"):
        packed_text(b"a" * 64)
