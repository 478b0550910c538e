"""How an import shows its progress: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

#: Time between two plain lines of one file.
LINE_SECONDS = 5.0


class Bars:
    """A bar a file with its rows, rows a second and the time left, on a terminal."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[rows]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
        )
        self._clock = clock
        self._task = TaskID(0)
        self._size_bytes = 0
        self._started = 0.0

    def begin(self, path: Path, size_bytes: int) -> None:
        """A file begins."""
        self._bars.start()
        self._task = self._bars.add_task(path.name, total=max(size_bytes, 1), rows="")
        self._size_bytes = max(size_bytes, 1)
        self._started = self._clock()

    def advance(self, rows: int, position_bytes: int) -> None:
        """The bar follows the bytes read, since nobody knows the rows of a file before its end."""
        rate = rows / max(self._clock() - self._started, 1e-6)
        self._bars.update(self._task, completed=position_bytes, rows=f"{rows:,} rows, {rate:,.0f}/s")

    def end(self) -> None:
        """The file is finished, or the import ends in the middle of it."""
        self._bars.stop()


class Lines:
    """A plain line every few seconds, for logs and pipes."""

    def __init__(self, output: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._output = output
        self._clock = clock
        self._name = ""
        self._size_bytes = 1
        self._started = self._last = 0.0

    def begin(self, path: Path, size_bytes: int) -> None:
        """A file begins."""
        self._name = path.name
        self._size_bytes = max(size_bytes, 1)
        self._started = self._last = self._clock()

    def advance(self, rows: int, position_bytes: int) -> None:
        """Write a line where the last one is long enough ago."""
        now = self._clock()
        if now - self._last >= LINE_SECONDS:
            self._last = now
            share = min(position_bytes / self._size_bytes, 1.0)
            rate = rows / (now - self._started)
            left = (now - self._started) * (1 - share) / max(share, 1e-6)
            self._output.write(f"{self._name}: {rows:,} rows, {share:.0%}, {rate:,.0f} rows/s, {left:,.0f} s left\n")
            self._output.flush()

    def end(self) -> None:
        """The file is finished, or the import ends in the middle of it."""
