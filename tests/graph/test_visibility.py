"""Packed states and what they add up to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graph.visibility import CursorState, EdgeFlag, UserFlag, change_flags, is_deleted, version_of, visibility

packed = st.integers(min_value=0, max_value=2**40)


@given(state=packed, flags=st.integers(min_value=0, max_value=7))
def test_a_change_takes_the_next_version_and_no_change_none(state: int, flags: int) -> None:
    changed = change_flags(state, set_flags=flags)
    assert changed & 7 == (state & 7) | flags
    assert version_of(changed) == version_of(state) + (state & flags != flags)
    cleared = change_flags(state, clear_flags=flags)
    assert cleared & 7 == (state & 7) & ~flags
    assert version_of(cleared) == version_of(state) + (state & flags != 0)


@given(edge=packed, owner=packed)
def test_seen_is_friends_and_no_block_and_neither_hidden_nor_deleted(edge: int, owner: int) -> None:
    seen = visibility(edge, owner)
    assert seen.version == edge // 8 + owner // 8
    friends = bool(edge & EdgeFlag.FRIENDS) and not edge & (EdgeFlag.LOWER_BLOCKS | EdgeFlag.HIGHER_BLOCKS)
    if friends and not owner & (UserFlag.HIDDEN | UserFlag.DELETED):
        assert seen.state is (CursorState.PULL if owner & UserFlag.PULL else CursorState.PUSH)
    else:
        assert seen.state is CursorState.OFF
    assert is_deleted(owner) == bool(owner & UserFlag.DELETED)


@given(changes=st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from([1, 2, 4])), max_size=50))
def test_the_version_of_a_pair_only_grows(changes: list[tuple[bool, bool, int]]) -> None:
    edge = owner = 0
    last = visibility(edge, owner)
    for of_edge, on, flag in changes:
        before = (edge, owner)
        if of_edge:
            edge = change_flags(edge, set_flags=flag) if on else change_flags(edge, clear_flags=flag)
        else:
            owner = change_flags(owner, set_flags=flag) if on else change_flags(owner, clear_flags=flag)
        now = visibility(edge, owner)
        assert now.version == last.version + ((edge, owner) != before)
        last = now
