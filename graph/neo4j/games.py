"""The game catalogue: dense numbers from one counter, names, and a version by which readers learn what changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from graph.neo4j.database import Database
from graph.neo4j.transaction import Transaction
from graph.social_graph import Catalogue, Game, GameRow, TruthReplacedError

_READ_NUMBERS = "UNWIND $ids AS id MATCH (g:HeadcountGame {id: id}) RETURN collect([id, g.number])"
_READ_GAMES = "UNWIND $ids AS id MATCH (g:HeadcountGame {id: id}) RETURN collect([id, g.number, g.name, g.image])"
_LOCK_COUNTER = """
    MATCH (locked:HeadcountCounter {name: "games"}) SET locked.name = locked.name
    WITH DISTINCT 1 AS locked
    MATCH (c:HeadcountCounter {name: "games"})
    RETURN coalesce(c.last, 0), coalesce(c.version, 0)
"""
_WRITE_COUNTER = 'MATCH (c:HeadcountCounter {name: "games"}) SET c.last = $last, c.version = $version'
_WRITE_GAMES = """
    UNWIND $rows AS row
    MERGE (g:HeadcountGame {id: row[0]})
    SET g.number = row[1], g.name = row[2], g.image = row[3], g.version = $version
"""
_READ_VERSION = """
    MATCH (t:HeadcountTruth {only: 1})
    MATCH (c:HeadcountCounter {name: "games"})
    RETURN t.id, coalesce(c.version, 0)
"""
# Under the counter's lock: a commit that is not wholly written yet shows its version before its games.
_READ_CHANGED = """
    MATCH (locked:HeadcountCounter {name: "games"}) SET locked.name = locked.name
    WITH DISTINCT 1 AS locked
    MATCH (t:HeadcountTruth {only: 1})
    MATCH (c:HeadcountCounter {name: "games"})
    CALL () {
        MATCH (g:HeadcountGame) WHERE g.version > $since
        WITH g ORDER BY g.number
        RETURN collect([g.id, g.number, g.name, g.image]) AS games
    }
    RETURN t.id, coalesce(c.version, 0), games
"""


class GameNumbers:
    """Numbers by game id as this process has met them. A number is given once, so what is known stays right."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    async def find(self, transaction: Transaction, game_ids: Collection[int]) -> dict[int, int]:
        """Numbers by game id, unknown games left out."""
        unmet = [game_id for game_id in game_ids if game_id not in self._known]
        if unmet:
            ((rows,),) = await transaction.run(_READ_NUMBERS, ids=unmet)
            self._known.update((game_id, number) for game_id, number in rows)
        return {game_id: self._known[game_id] for game_id in game_ids if game_id in self._known}

    def learn(self, games: Iterable[Game]) -> None:
        """What was read of the catalogue need not be asked for by the plays that follow."""
        self._known.update((game.id, game.number) for game in games)

    def forget(self) -> None:
        """Another truth gives other numbers."""
        self._known.clear()


async def save_games(transaction: Transaction, rows: Sequence[GameRow]) -> list[Game]:
    """Create or change games; new ones get the next numbers in the order of the rows. A None keeps what there is."""
    ids = sorted({row.id for row in rows})
    games = await _read_games(transaction, ids)
    last, changed = _change(games, rows, 0)
    if changed:
        ((last, version),) = await transaction.run(_LOCK_COUNTER)
        games = await _read_games(transaction, ids)  # again: whoever had the lock may have made them
        last, changed = _change(games, rows, last)
        if changed:
            await _write_games(transaction, changed.values(), last, version + 1)
    return [games[row.id] for row in rows]


def _change(games: dict[int, Game], rows: Sequence[GameRow], last: int) -> tuple[int, dict[int, Game]]:
    changed: dict[int, Game] = {}
    for row in rows:
        known = games.get(row.id)
        if known is None:
            last += 1
            game = Game(row.id, last, f"Game {row.id}" if row.name is None else row.name, row.image_url)
        else:
            name = known.name if row.name is None else row.name
            image_url = known.image_url if row.image_url is None else row.image_url
            game = Game(row.id, known.number, name, image_url)
        if game != known:
            games[row.id] = changed[row.id] = game
    return last, changed


async def _read_games(transaction: Transaction, game_ids: list[int]) -> dict[int, Game]:
    ((rows,),) = await transaction.run(_READ_GAMES, ids=game_ids)
    return {row[0]: Game(*row) for row in rows}


async def _write_games(transaction: Transaction, games: Iterable[Game], last: int, version: int) -> None:
    rows = [[game.id, game.number, game.name, game.image_url] for game in games]
    await transaction.run(_WRITE_GAMES, rows=rows, version=version)
    await transaction.run(_WRITE_COUNTER, last=last, version=version)


async def read_catalogue(database: Database, truth_id: str, since: int) -> Catalogue:
    """What changed in the catalogue after a version. Raises TruthReplacedError."""
    found = await database.run(_READ_VERSION)
    if found == [[truth_id, since]]:
        return Catalogue(since, [])
    if found and found[0][0] == truth_id:
        found = await database.run(_READ_CHANGED, since=since)
    if not found or found[0][0] != truth_id:
        raise TruthReplacedError(f"Neo4j at {database.uri}: another truth was put in its place")
    ((_, version, rows),) = found
    return Catalogue(version, [Game(*row) for row in rows])
