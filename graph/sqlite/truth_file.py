"""The file of the truth: opened, migrated, and known again, since a restore may put another in its place."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graph.social_graph import TruthReplacedError, TruthUnavailableError
from graph.sqlite.columns import CACHED_STATEMENTS
from graph.sqlite.failures import primary_code, told_as_unavailable

MINIMUM_SQLITE = (3, 37, 0)  # STRICT tables
APPLICATION_ID = 0x48444354  # "HDCT" in the file's header, for file(1) and against opening another program's database
MIGRATIONS = Path(__file__).parents[1] / "migrations" / "sqlite"

BUSY_SECONDS = 10.0
WRITER_CACHE_KIB = 65_536
READER_CACHE_KIB = 16_384
#: A play changes a row here and a row there, and each costs its whole page in the WAL: half of SQLite's usual page is a
#: third more plays a second (11,800 against 8,700 among 20,000 users), and still holds a log of 400 games.
PAGE_BYTES = 2_048
#: The WAL is copied back into the file when it is this long (32 MB), by whoever commits. A page that changed often
#: since then is copied once.
AUTOCHECKPOINT_PAGES = 16_000


class TruthFile:
    """One SQLite file, and which truth this process opened there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wal_path = path.with_name(path.name + "-wal")
        self.truth_id = ""
        self._identity = (0, 0)

    def open(self) -> None:
        """Make or migrate the schema and learn the truth's id.

        Raises:
            TruthUnavailableError: the file cannot be used; one line says why.
        """
        if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
            raise TruthUnavailableError(f"SQLite 3.37 or newer is needed, this Python has {sqlite3.sqlite_version}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise TruthUnavailableError(f"{self.path}: cannot be made: {self.path.parent} is not a folder") from None
        except OSError as error:
            raise TruthUnavailableError(f"{self.path}: cannot be made: {error.strerror}") from error
        self._check_writable()
        with told_as_unavailable(self.path):
            connection = self.connect(cache_kib=WRITER_CACHE_KIB)
            try:
                connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a new file; others keep theirs
                self._migrate(connection)
                when_free(connection, "PRAGMA journal_mode = WAL", BUSY_SECONDS)
                (self.truth_id,) = connection.execute("SELECT id FROM truth").fetchone()
            finally:
                connection.close()
        self._identity = self._identity_now()

    def _check_writable(self) -> None:
        """SQLite opens a file that it may not write for reading, makes its companions as unwritable, and tells of it at
        the first write.
        """
        for path in (self.path, self.wal_path, self.path.with_name(self.path.name + "-shm")):
            if path.exists() and not os.access(path, os.R_OK | os.W_OK):
                raise TruthUnavailableError(f"{path}: cannot be read and written: permission denied")

    def connect(self, *, cache_kib: int) -> sqlite3.Connection:
        """A connection that any one thread at a time may use, transactions begun by hand."""
        connection = sqlite3.connect(
            self.path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=CACHED_STATEMENTS,
        )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{cache_kib}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def check_in_place(self) -> None:
        """See that the path still leads to the file that was opened.

        Raises:
            TruthReplacedError: another file stands there, or none: what is written now would be lost with the old one.
        """
        if self._identity_now() != self._identity:
            raise TruthReplacedError(f"{self.path}: another truth was put in its place")

    def check_truth_id(self, truth_id: str) -> None:
        """See that an id read from the file is that of the truth that was opened. Raises TruthReplacedError."""
        if truth_id != self.truth_id:
            raise TruthReplacedError(f"{self.path}: another truth was put in its place")

    def _identity_now(self) -> tuple[int, int]:
        try:
            status = os.stat(self.path)  # noqa: PTH116  # half the cost of Path.stat, on the path of every write
        except FileNotFoundError:
            return (0, 0)
        except OSError as error:
            raise TruthUnavailableError(f"{self.path}: cannot be opened: {error.strerror}") from error
        return (status.st_dev, status.st_ino)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        scripts = migration_scripts()
        with immediate(connection, BUSY_SECONDS):  # first the lock, then the look: two processes may open at once
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if application_id != APPLICATION_ID and (tables or version):
                raise TruthUnavailableError(f"{self.path}: is a database of another program")
            if version > len(scripts):
                raise TruthUnavailableError(
                    f"{self.path}: has schema version {version}, newer than this program's {len(scripts)}"
                )
            for number, script in enumerate(scripts[version:], start=version + 1):
                for statement in statements(script.read_text(encoding="utf-8")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            if application_id != APPLICATION_ID:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


@contextmanager
def immediate(connection: sqlite3.Connection, wait_seconds: float) -> Iterator[None]:
    """A write transaction: committed at the end, rolled back by an exception."""
    when_free(connection, "BEGIN IMMEDIATE", wait_seconds)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors (a full disk) have rolled back already
            connection.execute("ROLLBACK")
        raise


def when_free(connection: sqlite3.Connection, statement: str, wait_seconds: float) -> None:
    """Run a statement that takes a lock, asking once a millisecond.

    SQLite's own busy handler soon sleeps 100 ms between two tries and would miss the short rests of an import, and it
    is not asked at all where a change of the journal mode meets another connection. Raises sqlite3.OperationalError
    (SQLITE_BUSY) after `wait_seconds`.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.001)
        else:
            return


def migration_scripts() -> list[Path]:
    """The migrations, oldest first; the n-th makes schema version n."""
    return sorted(path for path in MIGRATIONS.iterdir() if re.fullmatch(r"\d{4}_\w+\.sql", path.name))


def statements(script: str) -> Iterator[str]:
    """The statements of a script. `executescript` would commit the transaction that they belong to."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
