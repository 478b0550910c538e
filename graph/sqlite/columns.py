"""Rows as columns, one row in and one row out a statement.

Python's sqlite3 gives up the interpreter lock at every row that SQLite steps to, and under a busy event loop gets it
back only after the switch interval of 5 ms: 300 rows fetched one by one took 2.9 s here, 30 ms when SQLite gathered
them into one row. So a statement of this adapter takes all of its rows at once (ids to look up as one JSON array, rows
to write as one VALUES list, which costs a third of JSON) and answers with one JSON array a column. Play logs come as
hexadecimal digits, since SQLite gathers blobs into nothing else that keeps their zeros.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

#: One column's worth of values of a JSON array: integers, strings or None, as SQLite stores them.
Column = list[Any]


#: Rows a statement writes: five columns of them stay below SQLite's 32,766 parameters.
ROWS_A_STATEMENT = 1_000


def as_json(values: Iterable[object]) -> str:
    """Values as the JSON text that `json_each` takes. SQLite refuses JSON as a blob, so it is a string."""
    return orjson.dumps(list(values)).decode()


def write_rows(connection: sqlite3.Connection, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Write rows of equal length by a statement that says `VALUES {rows}`."""
    for start in range(0, len(rows), ROWS_A_STATEMENT):
        part = rows[start : start + ROWS_A_STATEMENT]
        placeholders = "(" + ", ".join("?" * len(part[0])) + ")"
        connection.execute(
            sql.format(rows=", ".join([placeholders] * len(part))), [value for row in part for value in row]
        )


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
