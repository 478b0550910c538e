"""The rejects file: rows that were passed over, each with its line and the rule it breaks, ready to mend and import."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TextIO

from graph.imports.kinds import BadRowError
from graph.imports.tables import Table

LINE_COLUMN = "rejected_line"
RULE_COLUMN = "rejected_rule"


class RejectsError(Exception):
    """The rejects file cannot be written; the text is one line."""


class Rejects:
    """Writes `FILE.rejects`, from the first rejected row on.

    The columns of the table come as they stand in it, after two of this file's own, so that a row with too many or too
    few fields stays one, and the mended file can be imported as it is. It stands next to the table, or in the current
    folder where that one cannot be written, and replaces the one of an earlier import.
    """

    def __init__(self, table: Table) -> None:
        self.count = 0
        self.path: Path | None = None
        self._table = table
        self._file: TextIO | None = None

    def write(self, line: int, text: str, bad: BadRowError) -> None:
        """Write one row, by the line that it starts on and its text in the file.

        Raises:
            RejectsError: neither folder can be written, or the disk is full.
        """
        rule = bad.rule if bad.column is None else f"{bad.column}: {bad.rule}"
        self._put(f"{line}{self._table.delimiter}{self._quoted(rule)}{self._table.delimiter}{text}\n")
        self.count += 1

    def flush(self) -> None:
        """Hand what was written to the operating system. Raises RejectsError."""
        if self._file is not None:
            try:
                self._file.flush()
            except OSError as error:
                raise RejectsError(f"cannot write {self.path}: {error.strerror}") from None

    def close(self) -> None:
        """Close the file. Raises RejectsError."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                raise RejectsError(f"cannot write {self.path}: {error.strerror}") from None

    def _put(self, text: str) -> None:
        try:
            if self._file is None:
                self.path = self._place()
                # Bytes that are not UTF-8 go out as they came in.
                self._file = self.path.open("w", encoding="utf-8", errors="surrogateescape", newline="\n")
                header = [self._free(LINE_COLUMN), self._free(RULE_COLUMN), *map(self._quoted, self._table.header)]
                self._file.write(self._table.delimiter.join(header) + "\n")
            self._file.write(text)
        except OSError as error:
            raise RejectsError(f"cannot write {self.path}: {error.strerror}") from None

    def _place(self) -> Path:
        name = self._table.path.name + ".rejects"
        beside = self._table.path.parent
        try:
            # A folder's mode says too little (read-only mounts, quotas, root): a file can be made there or not.
            with tempfile.TemporaryFile(dir=beside):
                pass
        except OSError:
            return Path(os.curdir) / name
        return beside / name

    def _free(self, name: str) -> str:
        # The table may be a rejects file itself.
        while name in self._table.columns:
            name += "_again"
        return name

    def _quoted(self, value: str) -> str:
        if self._table.delimiter in value or "\n" in value or value.startswith('"'):
            return '"' + value.replace('"', '""') + '"'
        return value
