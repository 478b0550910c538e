"""Numbers as people read them."""

from __future__ import annotations

import pytest

from resolvers.labels import capped, rounded


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1,000"),
        (1_049, "1,000"),
        (1_050, "1,100"),
        (48_302, "48,300"),
        (48_350, "48,400"),
        (999_950, "1,000,000"),
    ],
)
def test_live_counts_are_rounded_to_hundreds_halves_up(count: int, text: str) -> None:
    assert rounded(count) == text


@pytest.mark.parametrize(
    ("count", "cap", "text"), [(12, 50, "12"), (50, 50, "50"), (51, 50, "50+"), (1_234, 2_000, "1,234")]
)
def test_friend_counts_are_capped(count: int, cap: int, text: str) -> None:
    assert capped(count, cap) == text
