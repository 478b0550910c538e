"""The deleted users in a process's memory: whether a token's user was deleted, without asking a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from graph.social_graph import SocialGraph

#: Ids learnt lately are in a set; past so many they move to the sorted array, at 8 bytes each and not 60.
RECENT = 10_000


class DeletedUsers:
    """Everybody who was deleted, as of the last refresh. A container of user ids."""

    def __init__(self) -> None:
        self._truth_id = ""
        self._number = 0
        self._sorted = np.zeros(0, dtype=np.int64)
        self._recent: set[int] = set()
        self._listeners: list[Callable[[], None]] = []

    def __contains__(self, user_id: object) -> bool:
        if user_id in self._recent:
            return True
        place = int(np.searchsorted(self._sorted, user_id)) if isinstance(user_id, int) else 0
        return place < len(self._sorted) and int(self._sorted[place]) == user_id

    def __len__(self) -> int:
        return len(self._sorted) + len(self._recent)

    def on_growth(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever somebody more is known to be deleted."""
        self._listeners.append(listener)

    def add(self, user_id: int) -> None:
        """Note one that this process deleted, before the next refresh tells."""
        self._learn([user_id])

    async def refresh(self, graph: SocialGraph) -> None:
        """Learn who was deleted since the last refresh; one query of the truth, cheap when nobody was.

        Raises:
            TruthUnavailableError, TruthReplacedError: what is known stays.
        """
        truth_id = graph.truth_id
        other_truth = truth_id != self._truth_id
        deletions = await graph.deletions(0 if other_truth else self._number)
        if other_truth:
            self._truth_id, self._sorted, self._recent = truth_id, np.zeros(0, dtype=np.int64), set()
            self._number = deletions.number
        self._number = max(self._number, deletions.number)  # of two refreshes at once the other may know more
        self._learn(deletions.user_ids)

    def _learn(self, user_ids: Iterable[int]) -> None:
        new = {user_id for user_id in user_ids if user_id not in self}
        if not new:
            return
        self._recent |= new
        if len(self._recent) > RECENT:
            recent = np.fromiter(self._recent, dtype=np.int64, count=len(self._recent))
            self._sorted = np.union1d(self._sorted, recent)
            self._recent = set()
        for listener in self._listeners:
            listener()
