"""The four kinds of files: their columns, and how a row's fields become a row of the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from graph.import_rules import LATEST_MS
from graph.imports.tables import Row, Table
from graph.imports.values import BadValueError, read_id, read_image_url, read_name, read_time, shown
from graph.social_graph import FriendshipRow, GameRow, PlayRow, UserRow

KindName: TypeAlias = Literal["games", "users", "friends", "plays"]
ImportedRow: TypeAlias = GameRow | UserRow | FriendshipRow | PlayRow
Fields: TypeAlias = dict[str, str]


class BadRowError(Exception):
    """A row that cannot be imported.

    Args:
        column: the column at fault, None where it is the row as a whole.
        rule: what it breaks.
    """

    def __init__(self, column: str | None, rule: str) -> None:
        super().__init__(rule)
        self.column = column
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file. `read` makes a row of the truth from the fields of these columns.

    `key` is what rows lie by in the truth; None where they are to be written in the order of the file.
    """

    name: KindName
    required: tuple[str, ...]
    ids: tuple[str, ...]
    optional: tuple[str, ...]
    read: Callable[[Cells], ImportedRow]
    key: Callable[[Any], Any] | None = None


class Cells:
    """One row's fields by column, remembering which column was looked at last."""

    __slots__ = ("column", "columns", "fields", "now_seconds")

    def __init__(self, columns: dict[str, int], now_seconds: float) -> None:
        self.columns = columns
        self.fields: list[str] = []
        self.column: str | None = None
        self.now_seconds = now_seconds

    def __getitem__(self, column: str) -> str:
        self.column = column
        return self.fields[self.columns[column]]

    def get(self, column: str) -> str:
        """The field, empty where the file has no such column."""
        return self[column] if column in self.columns else ""


def _game(cells: Cells) -> GameRow:
    return GameRow(read_id(cells["game_id"]), read_name(cells["name"]), read_image_url(cells.get("image_url")))


def _user(cells: Cells) -> UserRow:
    user_id = read_id(cells["user_id"])
    name = cells.get("name")
    return UserRow(user_id, read_name(name) if name else None)


def _friendship(cells: Cells) -> FriendshipRow:
    user_id, friend_id = read_id(cells["user_id"]), read_id(cells["friend_id"])
    if user_id == friend_id:
        raise BadValueError(f"user {user_id} cannot be their own friend")
    return FriendshipRow(user_id, friend_id)


def _play(cells: Cells) -> PlayRow:
    user_id, game_id = read_id(cells["user_id"]), read_id(cells["game_id"])
    return PlayRow(user_id, game_id, read_time(cells.get("played_at"), cells.now_seconds))


def _by_ids(row: FriendshipRow) -> tuple[int, int]:
    return (row.user_id, row.friend_id) if row.user_id < row.friend_id else (row.friend_id, row.user_id)


def _by_user_and_time(row: PlayRow) -> tuple[int, int]:
    """A user's plays in the order of their times; those without one are of the moment when they are written."""
    return row.user_id, LATEST_MS if row.played_at_ms is None else row.played_at_ms


#: In the order in which they are imported: what names others comes after what it names.
KINDS: tuple[Kind, ...] = (
    Kind("games", ("game_id", "name"), ("game_id",), ("image_url",), _game),
    Kind("users", ("user_id",), ("user_id",), ("name",), _user, attrgetter("id")),
    Kind("friends", ("user_id", "friend_id"), ("user_id", "friend_id"), (), _friendship, _by_ids),
    Kind("plays", ("user_id", "game_id"), ("user_id", "game_id"), ("played_at",), _play, _by_user_and_time),
)


class RowReader:
    """Reads the rows of one table of a kind.

    Args:
        kind: what the table holds.
        table: the table; its header has the kind's columns.
        now_seconds: the clock, Unix seconds; later times are bad values.
    """

    def __init__(self, kind: Kind, table: Table, now_seconds: float) -> None:
        self._read = kind.read
        self._width = len(table.header)
        self._cells = Cells(table.columns, now_seconds)

    def read(self, row: Row) -> ImportedRow:
        """The row of the truth.

        Raises:
            BadRowError: it breaks a rule.
        """
        cells = self._cells
        if len(row.fields) != self._width:
            raise BadRowError(None, f"{len(row.fields)} fields where the header has {self._width}: {shown(row.text)}")
        cells.fields = row.fields
        try:
            return self._read(cells)
        except BadValueError as error:
            raise BadRowError(cells.column, str(error)) from None
