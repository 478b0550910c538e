"""Totals over shards equal the sums of what each shard said last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from signals.shard_counts import ShardCounts, parse_counts

NUMBERS = st.one_of(st.integers(1, 6), st.integers(1, 300), st.just(2**32 - 1))
ANSWERS = st.tuples(
    st.integers(0, 63),
    st.booleans(),
    st.dictionaries(NUMBERS, st.one_of(st.just(0), st.integers(1, 10**6)), max_size=80),
)


def told(counts: dict[int, int]) -> bytes:
    rows = (f"{number} {sessions} {(sessions + 1) // 2}" for number, sessions in counts.items())
    return " ".join(rows).encode()


@given(st.lists(ANSWERS, max_size=12))
def test_totals_are_the_sums_over_shards(answers: list[tuple[int, bool, dict[int, int]]]) -> None:
    counts = ShardCounts()
    shards: list[dict[int, int]] = [{} for _ in range(64)]
    before: dict[int, int] = {}
    for shard, whole, answer in answers:
        changed = counts.fold(shard, parse_counts(told(answer)), whole=whole)
        shards[shard] = answer if whole else shards[shard] | answer
        expected: dict[int, int] = {}
        for held in shards:
            for number, sessions in held.items():
                if sessions:
                    expected[number] = expected.get(number, 0) + sessions
        assert {n: s for n, s, _ in counts.totals(counts.live()).tolist()} == expected
        moved = {n for n in expected.keys() | before.keys() if expected.get(n, 0) != before.get(n, 0)}
        assert moved <= changed
        assert counts.totals([7_000]).tolist() == [[7_000, 0, 0]]
        before = expected
