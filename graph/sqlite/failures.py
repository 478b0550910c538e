"""What SQLite reports, in the words of the truth."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graph.social_graph import TruthUnavailableError

# Primary result codes (sqlite.org/rescode.html) by what an operator can do about them.
_MEANING = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "cannot be written",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_PERM: "cannot be opened: permission denied",
    sqlite3.SQLITE_NOTADB: "is not a database",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_BUSY: "is locked by another process",
    sqlite3.SQLITE_LOCKED: "is locked by another process",
    sqlite3.SQLITE_IOERR: "cannot be read or written: disk I/O error",
    sqlite3.SQLITE_NOMEM: "cannot be read or written: out of memory",
}


def primary_code(error: sqlite3.Error) -> int:
    """The primary result code of an error, 0 where it did not come from SQLite itself."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


@contextmanager
def told_as_unavailable(path: Path) -> Iterator[None]:
    """Raise TruthUnavailableError, one line that names the file, where the store failed and not the statement."""
    try:
        yield
    except sqlite3.Error as error:
        meaning = _MEANING.get(primary_code(error))
        if meaning is None:
            raise
        raise TruthUnavailableError(f"{path}: {meaning}") from error
