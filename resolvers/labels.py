"""Numbers as people read them on a card."""

from __future__ import annotations


def capped(count: int, cap: int) -> str:
    """A count up to a cap: 50 of 50 is "50", one more is "50+"."""
    return f"{count:,}" if count <= cap else f"{cap:,}+"


def rounded(count: int) -> str:
    """A count exact below 1,000, else to the nearest hundred, halves up: 48,302 is "48,300"."""
    if count < 1000:
        return str(count)
    hundreds = (count + 50) // 100
    return f"{hundreds * 100:,}"
