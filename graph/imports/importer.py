"""The import: files of users, games, friendships and plays into the truth, in short transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from graph.imports.kinds import KINDS, Kind, KindName
from graph.imports.rejects import Rejects, RejectsError
from graph.imports.stretches import ReadRow, StretchReader, UnreadableRowError
from graph.imports.tables import Table, TableError
from graph.social_graph import SocialGraph, TruthUnavailableError

OnError: TypeAlias = Literal["stop", "skip"]

#: What a batch may take. It grows or shrinks towards this, so that others who write wait no longer; between batches the
#: truth rests and lets them.
BATCH_SECONDS = 0.02
#: A busy machine stretches a batch without its rows being at fault, and smaller batches would only load it more: the
#: clock counts by this share where it exceeds the processor's time.
CLOCK_SHARE = 0.15
FIRST_BATCH_ROWS = 500
#: Below this a batch's fixed price (a synced commit) outweighs its rows.
MIN_BATCH_ROWS = 1_000
MAX_BATCH_ROWS = 20_000

#: What is read ahead and put in the order of its keys, before it is written batch after batch: so much as is written in
#: this time, since an import that is asked to stop finishes it.
STRETCH_SECONDS = 2.0
MAX_STRETCH_ROWS = 50_000


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
    """How far a file got. `line` is the last line of it that is settled, imported or rejected, and so is all before it.

    `rows` are the rows imported up to there, `beyond` those that were imported of the lines after it.
    """

    path: Path
    rows: int = 0
    beyond: int = 0
    rejected: int = 0
    line: int = 1
    rejects_path: Path | None = None
    finished: bool = False

    def position(self) -> str:
        """How far it got, as a clause."""
        if self.finished:
            return f"{self.path}: {'1 row' if self.rows == 1 else f'all {self.rows:,} rows'} imported"
        if self.rows == 0 and self.rejected == 0 and self.beyond == 0:
            return f"{self.path}: nothing imported"
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        after = f"{self.beyond:,} of those" if self.beyond else "nothing"
        return f"{self.path}: {rows} imported, up to line {self.line}, and {after} after it"


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
        """End after the stretch that is being written."""
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
            reader = StretchReader(kind, table, self._clock(), keep_bad=self._on_error == "skip")
            await _FileImport(kind, table, report, rejects, self._graph, reader).run(self._progress, self._stop)
        except UnreadableRowError as error:
            raise ImportStoppedError(f"{error}; {report.position()}") from None
        except (TableError, RejectsError, TruthUnavailableError) as error:
            raise ImportStoppedError(f"{error}; {report.position()}") from None
        finally:
            report.rejected, report.rejects_path = rejects.count, rejects.path
            self._progress.end()
            rejects.close()


class _FileImport:
    """The import of one file, stretch after stretch and batch after batch."""

    def __init__(
        self,
        kind: Kind,
        table: Table,
        report: FileReport,
        rejects: Rejects,
        graph: SocialGraph,
        reader: StretchReader,
    ) -> None:
        self._kind = kind
        self._table = table
        self._report = report
        self._rejects = rejects
        self._graph = graph
        self._reader = reader
        self._batch_rows = FIRST_BATCH_ROWS

    async def run(self, progress: ImportProgress, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        stretch_rows = FIRST_BATCH_ROWS
        reading = loop.create_task(self._reader.read(stretch_rows))
        try:
            while stretch := await reading:
                if stop.is_set():
                    raise ImportStoppedError(f"stopped; {self._report.position()}; importing again goes on from there")
                # The next stretch is read while this one is written: the store waits for its disk or its server.
                stretch_rows = min(2 * stretch_rows, MAX_STRETCH_ROWS)
                reading = loop.create_task(self._reader.read(stretch_rows))
                started = time.monotonic()
                try:
                    await self._write_stretch(stretch, progress)
                finally:
                    self._settle(stretch)
                progress.advance(self._report.rows, self._table.position_bytes())
                rows_a_second = len(stretch) / max(time.monotonic() - started, 0.001)
                stretch_rows = max(min(stretch_rows, int(rows_a_second * STRETCH_SECONDS)), FIRST_BATCH_ROWS)
        finally:
            reading.cancel()
            await asyncio.wait([reading])
        self._report.finished = True

    async def _write_stretch(self, stretch: Sequence[ReadRow], progress: ImportProgress) -> None:
        key = self._kind.key
        good = [row for row in stretch if row.imported is not None]
        if key is not None:
            # Neighbours in the store are written together: a batch changes a tenth of the pages that it would change in
            # the order of the file, and a user of whom there are many rows is met once.
            good.sort(key=lambda row: key(row.imported))
        start = 0
        while start < len(good):
            batch = good[start : start + self._batch_rows]
            start += len(batch)
            took_seconds = await self._write(batch)
            growth = BATCH_SECONDS / took_seconds if took_seconds > 0 else 2.0
            rows = self._batch_rows * min(max(growth, 0.5), 2.0)
            self._batch_rows = int(min(max(rows, MIN_BATCH_ROWS), MAX_BATCH_ROWS))
            progress.advance(self._report.rows + start, self._table.position_bytes())

    async def _write(self, batch: list[ReadRow]) -> float:
        """Write the good rows of a batch; returns the seconds that it took, to choose the next one's size by."""
        while good := [row for row in batch if row.imported is not None]:
            started, worked, read = time.monotonic(), time.process_time(), self._reader.worked_seconds
            refused = await self._graph.import_rows(
                self._kind.name,
                [row.imported for row in good],  # type: ignore[arg-type]  # all of the kind that its name says
            )
            if not refused:
                for row in good:
                    row.written = True
                worked = time.process_time() - worked - (self._reader.worked_seconds - read)
                return max(worked, (time.monotonic() - started) * CLOCK_SHARE)
            for place in sorted(refused, key=lambda place: good[place].line):
                self._reader.refuse(good[place], self._column_named_in(refused[place], good[place]), refused[place])
        return 0.0

    def _settle(self, stretch: Sequence[ReadRow]) -> None:
        """Note how far the file is settled; of a stretch that was broken off, what is in before the first gap."""
        settled = 0
        for row in stretch:
            if not row.written and row.bad is None:
                break
            if row.bad is not None:
                self._rejects.write(row.line, row.text, row.bad)
            else:
                self._report.rows += 1
            self._report.line = row.last_line
            settled += 1
        self._rejects.flush()
        self._report.rejected = self._rejects.count
        self._report.beyond = sum(row.written for row in stretch[settled:])

    def _column_named_in(self, rule: str, row: ReadRow) -> str:
        """The id column whose value the truth's rule speaks of. A row of the truth begins with its ids."""
        words = rule.split()
        for column, value in zip(self._kind.ids, row.imported or (), strict=False):
            if str(value) in words:
                return column
        return self._kind.ids[0]
