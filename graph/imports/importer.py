"""The import: files of users, games, friendships and plays into the truth, in short transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from graph.imports.kinds import KINDS, BadRowError, ImportedRow, Kind, KindName, RowReader
from graph.imports.rejects import Rejects, RejectsError
from graph.imports.tables import Row, Table, TableError
from graph.social_graph import SocialGraph, TruthUnavailableError

OnError: TypeAlias = Literal["stop", "skip"]

#: What a batch may take. It grows or shrinks towards this, so that others who write wait no longer; between batches the
#: truth rests and lets them.
BATCH_SECONDS = 0.02
#: A busy machine stretches a batch without its rows being at fault, and smaller batches would only load it more: the
#: clock counts by this share where it exceeds the processor's time.
CLOCK_SHARE = 0.25
FIRST_BATCH_ROWS = 500
#: Below this a batch's fixed price (a synced commit) outweighs its rows.
MIN_BATCH_ROWS = 500
MAX_BATCH_ROWS = 20_000


class ImportProgress(Protocol):
    """Is told how an import goes."""

    def begin(self, path: Path, size_bytes: int) -> None:
        """A file begins."""

    def advance(self, rows: int, position_bytes: int) -> None:
        """So many rows of the file are imported, and so many of its bytes read."""

    def end(self) -> None:
        """The file is finished, or the import ends in the middle of it."""


@dataclass(slots=True)
class FileReport:
    """How far a file got. `line` is the last line of it that is settled, imported or rejected."""

    path: Path
    rows: int = 0
    rejected: int = 0
    line: int = 1
    rejects_path: Path | None = None
    finished: bool = False

    def position(self) -> str:
        """How far it got, as a clause."""
        if self.finished:
            return f"{self.path}: {'1 row' if self.rows == 1 else f'all {self.rows:,} rows'} imported"
        if self.rows == 0 and self.rejected == 0:
            return f"{self.path}: nothing imported"
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"{self.path}: {rows} imported, up to line {self.line}, and nothing after it"


class ImportStoppedError(Exception):
    """The import ended early. Its text is one line: why, and how far it got."""


class Importer:
    """Imports files, games first and plays last.

    Args:
        graph: the truth, open.
        files: the files by what they hold.
        on_error: what a bad row does: `stop` ends the import there and keeps nothing of its batch, `skip` writes it to
            the rejects file and goes on.
        progress: is told how it goes.
        clock: Unix seconds, to tell times that lie in the future.
    """

    def __init__(
        self,
        graph: SocialGraph,
        files: Mapping[KindName, Path],
        *,
        on_error: OnError = "stop",
        progress: ImportProgress,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.reports: list[FileReport] = []
        self._graph = graph
        self._files = files
        self._on_error = on_error
        self._progress = progress
        self._clock = clock
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End after the batch that is being written."""
        self._stop.set()

    async def run(self) -> None:
        """Import everything; `reports` says what was done, also after an error.

        Every header is read before the first row is written.

        Raises:
            TableError: a file cannot be read as a table; nothing was imported.
            ImportStoppedError: it ended early: a bad row with `stop`, a file that breaks off, a truth or a rejects file
                that cannot be written, or `stop()` was called.
        """
        tables: list[tuple[Kind, Table]] = []
        try:
            for kind in KINDS:
                path = self._files.get(kind.name)
                if path is not None:
                    # One by one, so that those already open are closed when the next is no table.
                    tables.append((kind, Table(path, kind.required, kind.ids)))
            for kind, table in tables:
                await self._import_file(kind, table)
        finally:
            for _, table in tables:
                table.close()

    async def _import_file(self, kind: Kind, table: Table) -> None:
        report = FileReport(table.path)
        self.reports.append(report)
        rejects = Rejects(table)
        self._progress.begin(table.path, table.size_bytes)
        try:
            await _FileImport(kind, table, report, rejects, self._graph, self._on_error, self._clock()).run(
                self._progress, self._stop
            )
        except (TableError, RejectsError, TruthUnavailableError) as error:
            raise ImportStoppedError(f"{error}; {report.position()}") from None
        finally:
            report.rejected, report.rejects_path = rejects.count, rejects.path
            self._progress.end()
            rejects.close()


@dataclass(slots=True)
class _Waiting:
    """A row on its way into the truth, or to the rejects file where it is bad."""

    row: Row
    imported: ImportedRow | None
    bad: BadRowError | None = None


class _FileImport:
    """The import of one file, batch after batch."""

    def __init__(
        self,
        kind: Kind,
        table: Table,
        report: FileReport,
        rejects: Rejects,
        graph: SocialGraph,
        on_error: OnError,
        now_seconds: float,
    ) -> None:
        self._kind = kind
        self._table = table
        self._report = report
        self._rejects = rejects
        self._graph = graph
        self._on_error = on_error
        self._reader = RowReader(kind, table, now_seconds)

    async def run(self, progress: ImportProgress, stop: asyncio.Event) -> None:
        rows = self._table.rows()
        batch_rows = FIRST_BATCH_ROWS
        ended = False
        while not ended:
            if stop.is_set():
                raise ImportStoppedError(f"stopped; {self._report.position()}; importing again goes on from there")
            batch: list[_Waiting] = []
            while len(batch) < batch_rows:
                row = next(rows, None)
                if row is None:
                    ended = True
                    break
                batch.append(self._read(row))
            took_seconds = await self._write(batch)
            self._settle(batch)
            progress.advance(self._report.rows, self._table.position_bytes())
            growth = BATCH_SECONDS / took_seconds if took_seconds > 0 else 2.0
            batch_rows = int(min(max(batch_rows * min(max(growth, 0.5), 2.0), MIN_BATCH_ROWS), MAX_BATCH_ROWS))
        self._report.finished = True

    def _read(self, row: Row) -> _Waiting:
        try:
            return _Waiting(row, self._reader.read(row))
        except BadRowError as bad:
            if self._on_error == "stop":
                raise self._stopped(row, bad) from None
            return _Waiting(row, None, bad)

    async def _write(self, batch: list[_Waiting]) -> float:
        """Write the good rows of a batch; returns the seconds that it took, to choose the next one's size by."""
        while good := [waiting for waiting in batch if waiting.imported is not None]:
            started, worked = time.monotonic(), time.process_time()
            refused = await self._graph.import_rows(
                self._kind.name,
                [waiting.imported for waiting in good],  # type: ignore[arg-type]  # all of the kind that its name says
            )
            if not refused:
                return max(time.process_time() - worked, (time.monotonic() - started) * CLOCK_SHARE)
            for place in sorted(refused):
                waiting = good[place]
                bad = BadRowError(self._column_named_in(refused[place], waiting.row), refused[place])
                if self._on_error == "stop":
                    raise self._stopped(waiting.row, bad)
                waiting.imported, waiting.bad = None, bad
        return 0.0

    def _settle(self, batch: list[_Waiting]) -> None:
        for waiting in batch:
            if waiting.bad is not None:
                self._rejects.write(waiting.row, waiting.bad)
        self._rejects.flush()
        self._report.rows += sum(waiting.bad is None for waiting in batch)
        self._report.rejected = self._rejects.count
        self._report.line = self._table.line

    def _column_named_in(self, rule: str, row: Row) -> str:
        """The id column whose value the truth's rule speaks of."""
        words = rule.split()
        for column in self._kind.ids:
            if row.fields[self._table.columns[column]] in words:
                return column
        return self._kind.ids[0]

    def _stopped(self, row: Row, bad: BadRowError) -> ImportStoppedError:
        place = f"{self._table.path}, line {row.line}"
        if bad.column is not None:
            place += f", column {bad.column}"
        return ImportStoppedError(f"{place}: {bad.rule}; {self._report.position()}")
