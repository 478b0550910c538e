"""What holds of a view at every moment: I1 and I2, and that its parts agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from signals.view import View


class WrongCountError(AssertionError):
    """An invariant of the views is broken."""


class NotDrainedError(WrongCountError):
    """Workers do not come to an end, although nothing goes wrong any more."""


def check_view(viewer_id: int, view: View | None, before: View | None, logs: Mapping[int, Sequence[int]]) -> None:
    """Compare a view with the logs that its cursors stand in, and with what it was before.

    Raises:
        WrongCountError: something does not hold; the text says what.
    """
    if view is None:
        return
    if not view.ready:
        if view.rows or view.counts or view.pull_owners:
            raise WrongCountError(f"{viewer_id} is being built and holds {view}")
        return
    counts: Counter[int] = Counter()
    for owner_id, row in view.rows.items():
        if row.cursor > (len(logs[owner_id]) if row.state else 0):
            raise WrongCountError(f"{viewer_id}: {row} of {owner_id} stands past {logs[owner_id]}")
        counts.update(logs[owner_id][: row.cursor])
    if counts != view.counts:
        raise WrongCountError(f"I1: {viewer_id} has {view.counts}, its cursors say {dict(counts)}")
    if view.pull_owners != {owner_id for owner_id, row in view.rows.items() if row.state == 2}:
        raise WrongCountError(f"{viewer_id}: pull owners {view.pull_owners}, rows {view.rows}")
    if before is not None and before.token == view.token:
        for owner_id, row in before.rows.items():
            now = view.rows[owner_id]
            if now.version < row.version or (now.version == row.version and now.cursor < row.cursor):
                raise WrongCountError(f"I2: {viewer_id}'s cursor in {owner_id} went from {row} to {now}")


def check_at_end(viewer_id: int, view: View | None, logs: Mapping[int, Sequence[int]]) -> None:
    """I3: nothing is in flight, and the page was read: every cursor stands at its log's end.

    Raises:
        WrongCountError: one does not.
    """
    assert view is not None
    for owner_id, row in view.rows.items():
        if row.state and row.cursor != len(logs[owner_id]):
            raise WrongCountError(f"I3: {viewer_id}: {row} of {owner_id}, whose log is {logs[owner_id]}")
