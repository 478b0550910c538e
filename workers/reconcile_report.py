"""What `headcount reconcile` says: its progress, and what it found, for people and for programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from workers.reconcile import Report
from workers.view_comparison import Drift, Kind

LINE_SECONDS = 5.0
#: What people are shown; `--json` has all of it.
SHOWN_ROWS = 1_000

_MEANING = {
    Kind.COUNT: "counted {found:,}, its cursors say {expected:,}",
    Kind.PAST_LOG_END: "cursor {found:,} past the end of a log of {expected:,}",
    Kind.AHEAD: "version {found:,}, ahead of the truth's {expected:,}",
    Kind.PULL_SET: "pulled by the set: {found}, by the row: {expected}",
    Kind.MISSING: "no row of a friend who is seen",
    Kind.VERSION: "version {found:,}, the truth's is {expected:,}",
    Kind.BEHIND: "cursor {found:,} behind a log of {expected:,}",
}


class Bar:
    """A bar of the views compared, on a terminal."""

    def __init__(self, console: Console, views: int) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[drift]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
        )
        self._task = self._bar.add_task("views", total=max(views, 1), drift="")

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, report: Report) -> None:
        """So much was found so far."""
        completed = report.users + report.without_view
        self._bar.update(self._task, completed=completed, drift=f"drift {report.drift_pairs:,}")


class Lines:
    """A plain line every few seconds, for logs and pipes."""

    def __init__(self, output: TextIO, views: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._output = output
        self._views = views
        self._clock = clock
        self._last = clock()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to put away."""

    def __call__(self, report: Report) -> None:
        """So much was found so far."""
        if self._clock() - self._last >= LINE_SECONDS:
            self._last = self._clock()
            self._output.write(
                f"{report.users + report.without_view:,} of {self._views:,} views, drift {report.drift_pairs:,}\n"
            )
            self._output.flush()


def totals(report: Report) -> list[tuple[str, str]]:
    """The sums, by name."""
    rows = [("users", f"{report.users:,}"), ("pairs", f"{report.pairs:,}"), ("drift", f"{report.drift_pairs:,}")]
    if report.drift:
        rows.append(("views that drifted", f"{len(report.drift):,}"))
    if report.repaired:
        rows.append(("evicted", f"{report.repaired:,}"))
    if report.in_flight:
        rows.append(("in flight", f"{len(report.in_flight):,} views lack events that no worker has handled yet"))
    if report.without_view:
        rows.append(("without a view", f"{report.without_view:,}"))
    return rows


def drift_rows(report: Report, game_ids: Mapping[int, int]) -> Iterator[tuple[str, str, str, str]]:
    """The wrong pairs: the user, the game or the friend, the kind, and what it means.

    Args:
        report: what was found.
        game_ids: the games' ids by their numbers.
    """
    for viewer_id, drift in sorted(report.drift.items()):
        for one in drift:
            other = f"friend {one.owner_id}" if one.owner_id else f"game {game_ids.get(one.number, '(unknown)')}"
            meaning = _MEANING[one.kind].format(found=one.found, expected=one.expected)
            yield f"user {viewer_id}", other, one.kind.value, meaning


def as_json(report: Report, game_ids: Mapping[int, int]) -> dict[str, Any]:
    """For programs. Ids are texts, as everywhere outside."""
    return {
        "users": report.users,
        "pairs": report.pairs,
        "drift": report.drift_pairs,
        "repaired": report.repaired,
        "without_view": report.without_view,
        "in_flight": [str(viewer_id) for viewer_id in sorted(report.in_flight)],
        "views": [
            {"user_id": str(viewer_id), "drift": [_pair(one, game_ids) for one in drift]}
            for viewer_id, drift in sorted(report.drift.items())
        ],
    }


def _pair(one: Drift, game_ids: Mapping[int, int]) -> dict[str, Any]:
    which = {"friend_id": str(one.owner_id)} if one.owner_id else {"game_id": str(game_ids.get(one.number, ""))}
    return {"kind": one.kind.value, **which, "found": one.found, "expected": one.expected}


def print_tables(report: Report, game_ids: Mapping[int, int]) -> None:
    """Show people what was found: what is wrong as far as a person may want to read, and the sums."""
    console = Console(highlight=False, markup=False)
    drift = list(islice(drift_rows(report, game_ids), SHOWN_ROWS))
    if drift:
        wrong = Table("user", "game or friend", "drift", "what is wrong")
        for row in drift:
            wrong.add_row(*row)
        console.print(wrong)
    sums = Table.grid(padding=(0, 2))
    sums.add_column(style="bold", no_wrap=True)
    for sum_ in totals(report):
        sums.add_row(*sum_)
    console.print(sums)
