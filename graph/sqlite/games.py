"""The game catalogue: dense numbers, names, and a version by which readers learn what changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence

from graph.social_graph import Catalogue, Game, GameRow
from graph.sqlite.columns import as_json, columns, write_rows
from graph.sqlite.transaction import Transaction


def read_numbers(connection: sqlite3.Connection, game_ids: Collection[int]) -> dict[int, int]:
    """Numbers by game id, unknown games left out."""
    ids, numbers = columns(
        connection,
        """
        SELECT json_group_array(g.id), json_group_array(g.number)
        FROM json_each(?) AS asked CROSS JOIN games AS g ON g.id = asked.value
        """,
        (as_json(game_ids),),
    )
    return dict(zip(ids, numbers, strict=True))


def read_games(connection: sqlite3.Connection, game_ids: Collection[int]) -> dict[int, Game]:
    """Games by id, unknown ones left out."""
    (rows,) = columns(
        connection,
        """
        SELECT json_group_array(json_array(g.id, g.number, g.name, g.image_url))
        FROM json_each(?) AS asked CROSS JOIN games AS g ON g.id = asked.value
        """,
        (as_json(game_ids),),
    )
    return {row[0]: Game(*row) for row in rows}


def read_catalogue(connection: sqlite3.Connection, since: int) -> tuple[str, Catalogue]:
    """The truth's id, and what changed in the catalogue after a version."""
    truth_id, version = connection.execute("SELECT id, catalogue_version FROM truth").fetchone()
    if version == since:
        return truth_id, Catalogue(version, [])
    # A later commit may come between the two statements. It only adds games that the next call brings again. The plus
    # keeps the planner from walking all games in the order of their numbers instead of taking the few that changed.
    (rows,) = columns(
        connection,
        """
        SELECT json_group_array(json_array(id, number, name, image_url))
        FROM (SELECT id, number, name, image_url FROM games WHERE version > ? ORDER BY +number)
        """,
        (since,),
    )
    return truth_id, Catalogue(version, [Game(*row) for row in rows])


def save_games(transaction: Transaction, rows: Sequence[GameRow]) -> list[Game]:
    """Create or change games; new ones get the next numbers in the order of the rows. A None keeps what there is."""
    games = read_games(transaction.connection, {row.id for row in rows})
    (last_number,) = transaction.connection.execute("SELECT last_number FROM truth").fetchone()
    changed: dict[int, Game] = {}
    for row in rows:
        known = games.get(row.id)
        if known is None:
            last_number += 1
            game = Game(row.id, last_number, f"Game {row.id}" if row.name is None else row.name, row.image_url)
        else:
            name = known.name if row.name is None else row.name
            image_url = known.image_url if row.image_url is None else row.image_url
            game = Game(row.id, known.number, name, image_url)
        if game != known:
            games[row.id] = changed[row.id] = game
    if changed:
        _write_games(transaction, changed.values(), last_number)
    return [games[row.id] for row in rows]


def _write_games(transaction: Transaction, games: Iterable[Game], last_number: int) -> None:
    (version,) = transaction.connection.execute(
        "UPDATE truth SET catalogue_version = catalogue_version + 1, last_number = ? RETURNING catalogue_version",
        (last_number,),
    ).fetchone()
    write_rows(
        transaction.connection,
        """
        INSERT INTO games (id, number, name, image_url, version) VALUES {rows}
        ON CONFLICT (id) DO UPDATE SET
            name = excluded.name, image_url = excluded.image_url, version = excluded.version
        """,
        [(game.id, game.number, game.name, game.image_url, version) for game in games],
    )
