from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from server.caches import SegmentedCache


def test_what_was_asked_for_twice_is_not_pushed_out_by_what_was_asked_for_once() -> None:
    cache: SegmentedCache[int, str] = SegmentedCache(3)
    cache.put(1, "one")
    assert cache.get(1) == "one"
    for stranger in range(100, 200):
        cache.put(stranger, "stranger")
    assert cache.get(1) == "one"
    assert len(cache) == 4


def test_among_the_kept_the_one_unused_for_longest_goes() -> None:
    cache: SegmentedCache[int, int] = SegmentedCache(2)
    for key in (1, 2):
        cache.put(key, key)
        cache.get(key)
    cache.get(1)
    cache.put(3, 3)
    cache.get(3)
    assert (cache.get(1), cache.get(2), cache.get(3)) == (1, None, 3)


def test_a_value_that_weighs_more_than_the_cache_is_not_held_and_pushes_nothing_out() -> None:
    cache: SegmentedCache[int, int] = SegmentedCache(10)
    cache.put(1, 1, weight=10)
    cache.put(2, 2, weight=11)
    assert (cache.get(1), cache.get(2)) == (1, None)


@given(st.lists(st.tuples(st.sampled_from(["get", "put", "drop"]), st.integers(0, 9), st.integers(1, 7)), max_size=80))
def test_it_answers_with_what_was_last_put_and_stays_within_its_bounds(steps: list[tuple[str, int, int]]) -> None:
    cache: SegmentedCache[int, int] = SegmentedCache(10)
    last: OrderedDict[int, int] = OrderedDict()
    for number, (step, key, weight) in enumerate(steps):
        if step == "put":
            cache.put(key, number, weight)
            last[key] = number
        elif step == "drop":
            cache.drop(key)
            last.pop(key, None)
        else:
            assert cache.get(key) in {None, last.get(key)}
        assert cache.weight == sum(w for _, w in [*cache._new.values(), *cache._kept.values()])
        assert cache._new_weight <= 10
        assert cache._kept_weight <= 10
