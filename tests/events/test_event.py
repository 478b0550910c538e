"""Events as they are written and read, and the partition each belongs to."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.event import PARTITIONS, Event

IDS = st.integers(1, 2**63 - 1)


@given(
    st.builds(
        Event,
        id=IDS,
        kind=st.sampled_from(["play", "log", "edge", "user"]),
        user_id=IDS,
        other_id=IDS,
        ordinal=st.integers(0, 2**32 - 1),
        number=st.integers(0, 2**32 - 1),
    )
)
def test_an_event_reads_back_as_it_was_written(event: Event) -> None:
    assert Event.decode(event.encode()) == event


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b"null",
        b"[" * 10_000,
        b'[1,"play",7,0,1]',
        b'[1,"like",7,0,1,3]',
        b'[1,["play"],7,0,1,3]',
        b'[1,"play","7",0,1,3]',
        b'[1,"play",7.0,0,1,3]',
        b'[1,"play",true,0,1,3]',
        b'[1,"play",-7,0,1,3]',
        b'[null,"play",7,0,1,3]',
    ],
)
def test_what_is_not_an_event_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the JSON reader has texts of its own
        Event.decode(data)


@pytest.mark.parametrize("step", [1, 2**10, 2**32, 2**40 + 2**20])
def test_ids_that_share_their_low_bits_spread_over_all_partitions(step: int) -> None:
    found = Counter(Event(1, "log", step * i).partition for i in range(1, 8_001))
    assert sorted(found) == list(range(PARTITIONS))
    assert max(found.values()) < 2 * 8_000 / PARTITIONS


@given(IDS, IDS)
def test_all_events_of_a_user_are_in_one_partition(user_id: int, other_id: int) -> None:
    play, edge = Event(1, "play", user_id, 0, 1, 3), Event(2, "edge", user_id, other_id)
    assert play.partition == edge.partition
    assert 0 <= play.partition < PARTITIONS
