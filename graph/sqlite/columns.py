"""Rows as columns, one row in and one row out a statement.

Python's sqlite3 gives up the interpreter lock at every row that SQLite steps to, and under a busy event loop gets it
back only after the switch interval of 5 ms: 300 rows fetched one by one took 2.9 s here, 30 ms when SQLite gathered
them into one row. So a statement of this adapter takes its rows as one JSON array, and answers with one JSON array a
column. Play logs come as hexadecimal digits, since SQLite gathers blobs into nothing else that keeps their zeros.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

import orjson

#: One column's worth of values of a JSON array: integers, strings or None, as SQLite stores them.
Column = list[Any]


def as_json(rows: Iterable[object]) -> str:
    """Rows as the JSON text that `json_each` takes. SQLite refuses JSON as a blob, so it is a string."""
    return orjson.dumps(list(rows)).decode()


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
