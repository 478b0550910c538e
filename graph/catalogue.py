"""The game catalogue in a process's memory: names and numbers of a page without asking a store."""

from __future__ import annotations

from collections.abc import Sequence

from graph.social_graph import Game, SocialGraph


class CatalogueMemory:
    """Every game, as of the last refresh.

    `truth_id` and `version` say what is known: of which truth, and up to which of its catalogue's versions.
    """

    def __init__(self) -> None:
        self.truth_id = ""
        self.version = 0
        self._by_id: dict[int, Game] = {}
        self._by_number: dict[int, Game] = {}
        self._ids: tuple[int, ...] = ()
        self._by_name: tuple[Game, ...] | None = None
        self._folded: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def loaded(self) -> bool:
        """Whether a catalogue was ever loaded, be it an empty one."""
        return self.truth_id != ""

    @property
    def ids(self) -> Sequence[int]:
        """All ids, ascending."""
        return self._ids

    @property
    def by_name(self) -> Sequence[Game]:
        """All games by name without regard to case, equal names by id."""
        if self._by_name is None:
            self._by_name = tuple(sorted(self._by_id.values(), key=lambda game: (self._folded[game.id], game.id)))
        return self._by_name

    def game(self, game_id: int) -> Game | None:
        """The game of this id."""
        return self._by_id.get(game_id)

    def numbered(self, number: int) -> Game | None:
        """The game of this number."""
        return self._by_number.get(number)

    def search(self, text: str) -> list[Game]:
        """Games whose name contains the text without regard to case, by ascending id. The empty text finds all."""
        wanted = text.casefold()
        return [self._by_id[game_id] for game_id in self._ids if wanted in self._folded[game_id]]

    async def refresh(self, graph: SocialGraph) -> bool:
        """Learn what changed since the last refresh; one query of the truth. Returns whether anything did.

        Raises:
            TruthUnavailableError, TruthReplacedError: what is known stays.
        """
        truth_id = graph.truth_id
        other_truth = truth_id != self.truth_id
        catalogue = await graph.catalogue(0 if other_truth else self.version)
        if other_truth:
            self._forget()
        self.truth_id = truth_id
        if catalogue.version < self.version:
            return False  # two refreshes at once: the other one knows more
        self.version = catalogue.version
        self._learn(catalogue.changed)
        return other_truth or bool(catalogue.changed)

    def restore(self, truth_id: str, version: int, games: Sequence[Game]) -> None:
        """Begin with a copy, kept while the truth was there; a refresh goes on from it, or forgets it."""
        self._forget()
        self.truth_id, self.version = truth_id, version
        self._learn(games)

    def _forget(self) -> None:
        self._by_id, self._by_number, self._folded, self._ids, self._by_name = {}, {}, {}, (), None
        self.version = 0

    def _learn(self, changed: Sequence[Game]) -> None:
        if not changed:
            return
        for game in changed:
            self._by_id[game.id] = self._by_number[game.number] = game
            self._folded[game.id] = game.name.casefold()
        self._by_name = None
        if len(self._ids) != len(self._by_id):
            self._ids = tuple(sorted(self._by_id))
