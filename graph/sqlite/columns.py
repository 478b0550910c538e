"""Rows as columns, one row in and one row out a statement.

Python's sqlite3 gives up the interpreter lock at every row that SQLite steps to, and under a busy event loop gets it
back only after the switch interval of 5 ms: 300 rows fetched one by one took 2.9 s here, 30 ms when SQLite gathered
them into one row. So a statement of this adapter takes all of its rows at once (ids to look up as one JSON array, rows
to write as one VALUES list, which costs a third of JSON) and answers with one JSON array a column. Play logs come as
hexadecimal digits, since SQLite gathers blobs into nothing else that keeps their zeros.
"""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import orjson

#: One column's worth of values of a JSON array: integers, strings or None, as SQLite stores them.
Column = list[Any]


#: Rows a statement takes: five columns of them stay below SQLite's 32,766 parameters. So few lengths, and any up to the
#: last of them, that a connection keeps them all prepared; preparing one costs half of what it does.
ROWS_A_STATEMENT = (1_000, 512, 256, 128)
CACHED_STATEMENTS = 1_024


def as_json(values: Iterable[object]) -> str:
    """Values as the JSON text that `json_each` takes. SQLite refuses JSON as a blob, so it is a string."""
    return orjson.dumps(list(values)).decode()


def write_rows(connection: sqlite3.Connection, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Write rows of equal length by a statement that says `VALUES {rows}`."""
    for part in _parts(rows):
        connection.execute(sql.format(rows=placeholders(part)), list(chain.from_iterable(part)))


def read_by_rows(connection: sqlite3.Connection, sql: str, rows: Sequence[tuple[object, ...]]) -> list[Column]:
    """Run a statement that says `VALUES {rows}` where it asks, and whose one row has a JSON array a column.

    Keys of several columns come cheaper so than as JSON, of which each would be read once a column.
    """
    found: list[Column] = []
    for part in _parts(rows):
        answer = columns(connection, sql.format(rows=placeholders(part)), tuple(chain.from_iterable(part)))
        found = [*map(operator.iadd, found, answer)] if found else answer
    return found


def _parts(rows: Sequence[tuple[object, ...]]) -> Iterator[Sequence[tuple[object, ...]]]:
    start = 0
    while left := len(rows) - start:
        length = next((length for length in ROWS_A_STATEMENT if length <= left), left)
        yield rows[start : start + length]
        start += length


def placeholders(rows: Sequence[tuple[object, ...]]) -> str:
    """The parameters of a VALUES list."""
    row = "(" + ", ".join("?" * len(rows[0])) + ")"
    return ", ".join([row] * len(rows))


def columns(connection: sqlite3.Connection, sql: str, parameters: tuple[object, ...] = ()) -> list[Column]:
    """Run a statement whose one row has a JSON array a column. Column lengths are equal."""
    row = connection.execute(sql, parameters).fetchone()
    return [orjson.loads(column) for column in row]


def unpack_logs(digits: str | None, lengths: Iterable[int]) -> list[bytes]:
    """Play logs from their gathered hexadecimal digits.

    Args:
        digits: the digits of all logs, one behind the other; None where there is not one.
        lengths: how many games each log has.
    """
    packed = bytes.fromhex(digits or "")
    logs = []
    start = 0
    for length in lengths:
        end = start + 4 * length
        logs.append(packed[start:end])
        start = end
    return logs
