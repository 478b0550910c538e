"""A play log inside a transaction, against a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graph.sqlite.play_log import PlayLog

# Numbers whose bytes are often found across two entries: 256 is 00 01 00 00, 1 is 01 00 00 00.
number = st.one_of(
    st.sampled_from([1, 2, 256, 257, 65_536, 16_777_216, 2**32 - 1]), st.integers(min_value=1, max_value=2**32 - 1)
)


def pack(numbers: list[int]) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in numbers)


@given(known=st.lists(number, unique=True, max_size=40), asked=st.lists(number, max_size=40))
def test_appends_against_a_list(known: list[int], asked: list[int]) -> None:
    log = PlayLog(7, 0, pack(known))
    entries = list(known)
    for time, wanted in enumerate(asked):
        first = wanted not in entries
        if first:
            entries.append(wanted)
        assert log.append(wanted, time) == (first, entries.index(wanted) + 1)
    assert log.plays == len(entries)
    assert [number for number, _ in log.appended] == entries[len(known) :]
    padded = log.padded()
    assert padded[: 4 * len(entries)] == pack(entries)
    assert not any(padded[4 * len(entries) :])


@given(length=st.integers(min_value=0, max_value=6_000), at=st.integers(min_value=1, max_value=7_000))
def test_long_logs(length: int, at: int) -> None:
    log = PlayLog(7, 0, pack(list(range(1, length + 1))))
    assert log.append(at, 0) == ((False, at) if at <= length else (True, length + 1))


def test_most_appends_keep_the_size_and_room_is_bounded() -> None:
    sizes = set()
    for length in range(1, 5_001):
        size = len(PlayLog(7, 0, bytes(4 * length)).padded()) // 4
        assert length <= size <= length + max(15, length / 4)
        sizes.add(size)
    assert len(sizes) < 45
