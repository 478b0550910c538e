"""Progress of an import: bars on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from graph.imports.progress import Bars, Lines


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_come_every_few_seconds_with_rate_and_time_left() -> None:
    output, clock = io.StringIO(), Clock()
    lines = Lines(output, clock)
    lines.begin(Path("plays.tsv"), 1000)
    for second in range(1, 12):
        clock.now = 100.0 + second
        lines.advance(second * 1000, second * 50)
    lines.end()
    assert output.getvalue().splitlines() == [
        "plays.tsv: 5,000 rows, 25%, 1,000 rows/s, 15 s left",
        "plays.tsv: 10,000 rows, 50%, 1,000 rows/s, 10 s left",
    ]


def test_a_short_import_prints_no_lines() -> None:
    output = io.StringIO()
    lines = Lines(output, Clock())
    lines.begin(Path("games.tsv"), 0)
    lines.advance(3, 0)
    lines.end()
    assert output.getvalue() == ""


def test_a_terminal_gets_a_bar_a_file() -> None:
    output, clock = io.StringIO(), Clock()
    bars = Bars(Console(file=output, force_terminal=True, width=120), clock)
    for name in ("games.tsv", "plays.tsv"):
        bars.begin(Path(name), 200)
        clock.now += 2
        bars.advance(5000, 200)
        bars.end()
    text = output.getvalue()
    assert "games.tsv" in text
    assert "plays.tsv" in text
    assert "100 %" in text
    assert "5,000 rows, 2,500/s" in text
