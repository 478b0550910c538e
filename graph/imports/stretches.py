"""Stretches of a file: rows read ahead of those that are being written."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from graph.imports.kinds import BadRowError, ImportedRow, Kind, RowReader
from graph.imports.tables import Table

#: Read without a break: half a millisecond. A thread that writes meanwhile needs the interpreter at every statement.
ROWS_AT_ONCE = 50


class UnreadableRowError(Exception):
    """A bad row ends the import; the text says where it stands and what it breaks."""


@dataclass(slots=True)
class ReadRow:
    """A row on its way into the truth, or to the rejects file where it is bad: its lines and its text in the file."""

    line: int
    last_line: int
    text: str
    imported: ImportedRow | None
    bad: BadRowError | None = None
    written: bool = False


class StretchReader:
    """Reads a table of a kind.

    Args:
        kind: what the table holds.
        table: the table; its header has the kind's columns.
        now_seconds: the clock, Unix seconds; later times are bad values.
        keep_bad: rows that cannot be imported are kept as such; otherwise the first of them is an error.
    """

    def __init__(self, kind: Kind, table: Table, now_seconds: float, *, keep_bad: bool) -> None:
        self.worked_seconds = 0.0  # the processor's time that reading took so far
        self._table = table
        self._rows = table.rows()
        self._reader = RowReader(kind, table, now_seconds)
        self._keep_bad = keep_bad

    async def read(self, count: int) -> list[ReadRow]:
        """The next `count` rows, fewer only at the end of the file. Others run in between.

        Raises:
            UnreadableRowError: a bad row, none being kept.
            TableError: the file breaks off.
        """
        stretch: list[ReadRow] = []
        while len(stretch) < count:
            started = time.thread_time()
            part = self._read_part(min(count - len(stretch), ROWS_AT_ONCE))
            self.worked_seconds += time.thread_time() - started
            stretch += part
            if not part:
                break
            await asyncio.sleep(0)
        return stretch

    def refuse(self, row: ReadRow, column: str | None, rule: str) -> None:
        """The row breaks a rule of the truth. Raises UnreadableRowError where bad rows are not kept."""
        self._keep(row, BadRowError(column, rule))

    def _read_part(self, count: int) -> list[ReadRow]:
        part: list[ReadRow] = []
        table, read = self._table, self._reader.read
        for row in self._rows:
            try:
                part.append(ReadRow(row.line, table.line, row.text, read(row)))
            except BadRowError as bad:
                part.append(ReadRow(row.line, table.line, row.text, None))
                self._keep(part[-1], bad)
            if len(part) == count:
                break
        return part

    def _keep(self, row: ReadRow, bad: BadRowError) -> None:
        if not self._keep_bad:
            place = f"{self._table.path}, line {row.line}"
            if bad.column is not None:
                place += f", column {bad.column}"
            raise UnreadableRowError(f"{place}: {bad.rule}")
        row.imported, row.bad = None, bad
