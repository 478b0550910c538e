"""A file to import, row by row: TSV or CSV, plain or gzip, UTF-8 with or without a byte order mark.

Quotes follow RFC 4180 where they can and are themselves where they cannot: a field is quoted when it starts with a
quote whose partner stands right before a delimiter or the line's end. So `"a<newline>b"` is one field, `"Weird Al" Y.`
and `The 5'9"` keep their quotes, and a quote that is opened and never closed swallows no rows.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

#: Characters of a row. More means that the file is not a table, and must not fill the memory.
MAX_ROW_CHARACTERS = 1 << 20
#: Lines that one quoted field may span.
MAX_QUOTED_LINES = 100
_GZIP_MAGIC = b"\x1f\x8b"
_WIDE_BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # those of UTF-32 start or contain the same


class TableError(Exception):
    """The file cannot be read as a table; the text is one line with the file's name."""


class Row(NamedTuple):
    """A row: the line it starts on (the header is line 1), its fields, and its text as it stands in the file."""

    line: int
    fields: list[str]
    text: str


class Table:
    """A table in a file, its header read.

    Args:
        path: the file.
        id_columns: columns that hold an id in every row; they tell a row from the second line of a quoted field.
        required: columns that must be in the header.

    Raises:
        TableError: no such file, not readable, not UTF-8, empty, or a column is missing or stands there twice.
    """

    def __init__(self, path: Path, required: Sequence[str], id_columns: Sequence[str]) -> None:
        self.path = path
        self.line = 0  # lines taken from the file so far, those looked ahead at not included
        self._ahead: deque[str] = deque()
        self._id_places: tuple[int, ...] = ()
        try:
            self.size_bytes = path.stat().st_size
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise TableError(f"{path}: {error.strerror}") from None
        try:
            self._text = self._decode()
            self.header = self._read_header()
            self.columns = self._columns(required)
        except BaseException:
            self._file.close()
            raise
        self._id_places = tuple(self.columns[name] for name in id_columns)

    def close(self) -> None:
        """Close the file."""
        self._text.close()
        self._file.close()

    def position_bytes(self) -> int:
        """How far the file has been read, out of `size_bytes`."""
        return self._file.tell()

    def rows(self) -> Iterator[Row]:
        """The rows after the header; empty lines are passed over.

        A field that is not UTF-8 holds its bytes as lone surrogates (PEP 383), as `text` does.

        Raises:
            TableError: the file ends in the middle of its compression, or a line is endless.
        """
        while (text := self._next_line()) is not None:
            if text:
                line = self.line
                fields, text = self._split(text)
                yield Row(line, fields, text)

    def _decode(self) -> TextIO:
        source: BinaryIO = self._file
        if self._peek(source, 2) == _GZIP_MAGIC:
            # GzipFile reads as a BinaryIO does, and `close` closes it through the text around it.
            source = gzip.open(source)  # type: ignore[assignment]  # noqa: SIM115
        start = self._peek(source, 4)
        if start.startswith(_WIDE_BYTE_ORDER_MARKS) or b"\0" in start:
            raise TableError(f"{self.path}: is not UTF-8 (it looks like UTF-16 or binary); save it as UTF-8")
        return io.TextIOWrapper(source, encoding="utf-8-sig", errors="surrogateescape", newline=None)

    def _peek(self, source: BinaryIO, length: int) -> bytes:
        try:
            start = source.read(length)
            source.seek(0)
        except (OSError, EOFError, zlib.error) as error:
            raise self._broken(error) from None
        return start

    def _read_header(self) -> list[str]:
        text = self._next_line()
        if text is None:
            raise TableError(f"{self.path}: is empty; a header with the columns' names comes first")
        if "\0" in text or not is_text(text):
            raise TableError(f"{self.path}: the header is not UTF-8; save the file as UTF-8")
        tab, comma = "\t" in text, "," in text
        if tab == comma:  # one column, or names with the other delimiter in them: the file's name decides
            tab = ".csv" not in [suffix.lower() for suffix in self.path.suffixes[-2:]]
        self.delimiter = "\t" if tab else ","
        return [name.strip() for name in self._split(text)[0]]

    def _columns(self, required: Sequence[str]) -> dict[str, int]:
        columns: dict[str, int] = {}
        for place, name in enumerate(self.header):
            if name in columns:
                raise TableError(f"{self.path}: the column {name!r} stands twice in the header")
            columns[name] = place
        for name in required:
            if name not in columns:
                found = ", ".join(repr(other[:40]) for other in self.header[:12])
                raise TableError(f"{self.path}: the column {name!r} is missing in the header, which has {found}")
        return columns

    def _next_line(self) -> str | None:
        text = self._ahead.popleft() if self._ahead else self._read_line()
        if text is not None:
            self.line += 1
        return text

    def _read_line(self) -> str | None:
        try:
            text = self._text.readline(MAX_ROW_CHARACTERS)
        except (OSError, EOFError, zlib.error) as error:
            raise self._broken(error) from None
        if len(text) == MAX_ROW_CHARACTERS:
            raise TableError(f"{self.path}, line {self.line + len(self._ahead) + 1}: the line does not end")
        return text.removesuffix("\n") if text else None

    def _broken(self, error: Exception) -> TableError:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return TableError(f"{self.path}, after line {self.line}: cannot be read ({reason})")

    def _line_after(self, count: int) -> str | None:
        """The `count`th line after the current one (from 0), left for later."""
        while len(self._ahead) <= count:
            line = self._read_line()
            if line is None:
                return None
            self._ahead.append(line)
        return self._ahead[count]

    def _split(self, text: str) -> tuple[list[str], str]:
        """The fields of the row that starts with this line, and the row's whole text."""
        delimiter = self.delimiter
        if '"' not in text:
            return text.split(delimiter), text
        fields: list[str] = []
        start = 0
        while True:
            end = -1
            if text.startswith('"', start):
                end, longer = self._closing_quote(text, start)
                if end >= 0:
                    for _ in range(longer.count("\n") - text.count("\n")):
                        self._next_line()
                    text = longer
                    fields.append(text[start + 1 : end].replace('""', '"'))
                    end += 1
            if end < 0:
                end = text.find(delimiter, start)
                if end < 0:
                    end = len(text)
                fields.append(text[start:end])
            if end == len(text):
                return fields, text
            start = end + 1

    def _closing_quote(self, text: str, start: int) -> tuple[int, str]:
        """Where the quote that opens at `start` closes, and the text with the lines up to there; -1: it does not."""
        scan = start + 1
        lines = 0
        while True:
            quote = text.find('"', scan)
            if quote >= 0:
                if text.startswith('"', quote + 1):
                    scan = quote + 2
                    continue
                closes = quote + 1 == len(text) or text.startswith(self.delimiter, quote + 1)
                return (quote if closes else -1), text
            following = self._line_after(lines) if lines < MAX_QUOTED_LINES else None
            if following is None or self._reads_as_row(following) or len(text) > MAX_ROW_CHARACTERS:
                return -1, text
            scan = len(text)
            text = f"{text}\n{following}"
            lines += 1

    def _reads_as_row(self, text: str) -> bool:
        fields = text.split(self.delimiter)
        return (
            bool(self._id_places)
            and len(fields) == len(self.header)
            and all(fields[place].isdigit() for place in self._id_places)
        )


def is_text(value: str) -> bool:
    """Whether a value read with `surrogateescape` was UTF-8."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
