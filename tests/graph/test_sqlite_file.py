"""The file of the truth: faults that an operator meets, each one clear line, and what a restore does to a process."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graph.social_graph import GameRow, PlayRow, RecordedPlay, TruthReplacedError, TruthUnavailableError
from graph.sqlite import SQLiteGraph, truth_file, writer
from graph.sqlite.truth_file import migration_scripts, statements

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "truth.sqlite3"


@pytest.fixture
async def graph(path: Path) -> AsyncIterator[SQLiteGraph]:
    graph = SQLiteGraph(path)
    await graph.open()
    await graph.save_games([GameRow(game, None) for game in range(1, 101)])
    yield graph
    await graph.close()


async def refused(path: Path) -> str:
    """The line with which opening is refused."""
    graph = SQLiteGraph(path)
    with pytest.raises(TruthUnavailableError) as error:
        await graph.open()
    await graph.close()
    line = str(error.value)
    assert "\n" not in line
    return line


async def test_opening_twice_is_the_same_truth_in_wal_with_full_sync(graph: SQLiteGraph, path: Path) -> None:
    other = SQLiteGraph(path)
    await other.open()
    assert other.truth_id == graph.truth_id
    assert len(graph.truth_id) == 32
    await other.close()
    connection = graph._file.connect(cache_kib=1)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    connection.close()


async def test_two_truths_have_two_ids(graph: SQLiteGraph, tmp_path: Path) -> None:
    other = SQLiteGraph(tmp_path / "other.sqlite3")
    await other.open()
    assert other.truth_id != graph.truth_id
    await other.close()


async def test_many_open_a_new_file_at_once(path: Path) -> None:
    graphs = [SQLiteGraph(path) for _ in range(6)]
    await asyncio.gather(*(graph.open() for graph in graphs))
    assert len({graph.truth_id for graph in graphs}) == 1
    await asyncio.gather(*(graph.close() for graph in graphs))


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "truth.sqlite3"
    path.write_bytes(b"not a database, and longer than a header" * 100)
    assert await refused(path) == f"{path}: is not a database"


async def test_a_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "truth.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE users (id INTEGER)")
    connection.commit()
    connection.close()
    assert await refused(path) == f"{path}: is a database of another program"


async def test_a_newer_schema(graph: SQLiteGraph, path: Path) -> None:
    await graph.close()
    known = len(migration_scripts())
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {known + 1}")
    connection.close()
    assert await refused(path) == f"{path}: has schema version {known + 1}, newer than this program's {known}"


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "truth.sqlite3"
    assert await refused(path) == f"{path}: cannot be made: {path.parent} is not a folder"
    path = tmp_path / "file" / "folder" / "truth.sqlite3"
    assert await refused(path) == f"{path}: cannot be made: Not a directory"


async def test_a_folder_in_the_files_place(tmp_path: Path) -> None:
    assert await refused(tmp_path) == f"{tmp_path}: cannot be opened"


@pytest.mark.parametrize("name", ["truth.sqlite3", "truth.sqlite3-wal", "truth.sqlite3-shm"])
async def test_a_file_that_may_not_be_written(
    graph: SQLiteGraph, path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    await graph.close()
    other = SQLiteGraph(path)
    await other.open()
    unwritable = path.with_name(name)
    assert unwritable.exists()
    # What access(2) says to everybody but root, who may write all files and often runs the tests.
    may = os.access
    monkeypatch.setattr(os, "access", lambda file, mode: may(file, mode) and Path(file) != unwritable)
    assert await refused(path) == f"{unwritable}: cannot be read and written: permission denied"
    await other.close()


async def test_an_old_sqlite(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth_file, "MINIMUM_SQLITE", (99, 0, 0))
    assert (await refused(path)).startswith("SQLite 3.37 or newer is needed")


async def test_a_migration_that_fails_leaves_nothing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(truth_file.MIGRATIONS, tmp_path / "migrations")
    (tmp_path / "migrations" / "9999_half.sql").write_text("CREATE TABLE half (id INTEGER);\nSELECT broken;\n")
    monkeypatch.setattr(truth_file, "MIGRATIONS", tmp_path / "migrations")
    with pytest.raises(sqlite3.OperationalError, match="broken"):
        await SQLiteGraph(path).open()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    connection.close()
    (tmp_path / "migrations" / "9999_half.sql").write_text("CREATE TABLE whole (id INTEGER);\n")
    graph = SQLiteGraph(path)
    await graph.open()
    await graph.close()
    assert len(list(statements("CREATE TABLE a (b);\n-- c;\nCREATE TABLE d (e);\n"))) == 2


async def test_a_migration_keeps_what_was_there(
    graph: SQLiteGraph, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await graph.record_play(1, 5)
    truth_id = graph.truth_id
    await graph.close()
    shutil.copytree(truth_file.MIGRATIONS, tmp_path / "migrations")
    (tmp_path / "migrations" / "9999_more.sql").write_text("CREATE TABLE more (id INTEGER);\n")
    monkeypatch.setattr(truth_file, "MIGRATIONS", tmp_path / "migrations")
    again = SQLiteGraph(path)
    await again.open()
    assert again.truth_id == truth_id
    assert await again.play_logs([1]) == {1: b"\x05\x00\x00\x00"}
    await again.close()


async def test_a_truth_that_is_not_open_or_closed(path: Path) -> None:
    graph = SQLiteGraph(path)
    with pytest.raises(TruthUnavailableError):
        await graph.record_play(1, 1)
    await graph.open()
    await graph.close()
    await graph.close()
    for call in (graph.record_play(1, 1), graph.seen_logs(1), graph.import_rows("plays", [PlayRow(1, 1)])):
        with pytest.raises(TruthUnavailableError, match=r"closed|not open"):
            await call


async def test_a_full_disk_refuses_writes_keeps_reads_and_heals(graph: SQLiteGraph, path: Path) -> None:
    await graph.record_play(1, 1)
    assert graph._writer is not None
    connection = graph._writer._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    answered: list[tuple[int, int]] = []
    failure = ""
    for user in range(2, 5_000):
        answers = await asyncio.gather(*(graph.record_play(user, game) for game in (1, 2)), return_exceptions=True)
        if isinstance(answers[0], TruthUnavailableError):
            assert isinstance(answers[1], TruthUnavailableError)
            failure = str(answers[0])
            break
        answered += [(user, 1), (user, 2)]
    assert failure == f"{path}: the disk is full"
    with pytest.raises(TruthUnavailableError, match="the disk is full"):
        await graph.import_rows("plays", [PlayRow(9_000 + user, 7) for user in range(1_000)])
    logs = await graph.play_logs(range(1, 10_000))
    assert logs == {1: b"\x01\x00\x00\x00"} | {user: b"\x01\x00\x00\x00\x02\x00\x00\x00" for user, _ in answered}
    connection.execute("PRAGMA max_page_count = 1000000")
    assert (await graph.record_play(9_999, 1)).first
    assert (await graph.totals()).outbox == len(answered) + 2


LIMITED = """
import asyncio, resource, sys
from pathlib import Path
from graph.social_graph import GameRow, TruthUnavailableError
from graph.sqlite import SQLiteGraph

async def main():
    graph = SQLiteGraph(Path(sys.argv[1]))
    await graph.open()
    await graph.save_games([GameRow(game, None) for game in range(1, 101)])
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))  # the system refuses to write files beyond this
    answered = 0
    try:
        for user in range(1, 100_000):
            await graph.record_play(user, user % 100 + 1)
            answered += 1
    except TruthUnavailableError as error:
        print(str(error).count(chr(10)), error)
    kept = len(await graph.play_logs(range(1, 100_000)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await graph.record_play(100_000, 1)
    print(answered, kept)
    await graph.close()

asyncio.run(main())
"""


def test_a_system_that_refuses_to_write_is_one_line_and_heals(path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    refusal, counts = ran.stdout.splitlines()
    assert refusal.startswith(f"0 {path}: ")
    answered, kept = map(int, counts.split())
    assert 0 < answered <= kept <= answered + 1  # a play whose commit failed half way may stand; an answered one does


async def test_a_lock_held_for_too_long(graph: SQLiteGraph, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TruthUnavailableError, match="is locked by another process"):
        await graph.record_play(1, 1)
    assert await graph.play_logs([1]) == {}  # readers are not held up
    other.execute("ROLLBACK")
    other.close()
    assert (await graph.record_play(1, 1)).first


async def test_a_lock_held_for_a_moment_is_waited_for(graph: SQLiteGraph, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    play = asyncio.ensure_future(graph.record_play(1, 1))
    done, _ = await asyncio.wait([play], timeout=0.1)
    assert not done
    other.execute("ROLLBACK")
    other.close()
    assert (await play).first


async def test_a_row_that_breaks_its_batch_breaks_only_itself(graph: SQLiteGraph) -> None:
    answers = await asyncio.gather(
        *(graph.record_play(user, 1) for user in (1, 2, -3, 4, 2**63, 5)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [
        RecordedPlay,
        RecordedPlay,
        sqlite3.IntegrityError,
        RecordedPlay,
        OverflowError,
        RecordedPlay,
    ]
    assert set(await graph.play_logs([1, 2, 4, 5])) == {1, 2, 4, 5}


async def test_a_file_put_in_its_place_stops_every_write(graph: SQLiteGraph, path: Path, tmp_path: Path) -> None:
    restored = SQLiteGraph(tmp_path / "restored.sqlite3")
    await restored.open()
    await restored.close()
    os.replace(tmp_path / "restored.sqlite3", path)  # noqa: PTH105  # as a restore does
    for call in (
        graph.record_play(1, 1),
        graph.set_friendship(1, 2, True),
        graph.mark_published([1]),
        graph.catalogue(),
    ):
        with pytest.raises(TruthReplacedError):
            await call
    with pytest.raises(TruthReplacedError):
        await graph.import_rows("plays", [PlayRow(1, 1)])


async def test_a_file_taken_away_stops_every_write(graph: SQLiteGraph, path: Path, tmp_path: Path) -> None:
    path.rename(tmp_path / "elsewhere.sqlite3")  # noqa: ASYNC240  # nothing else runs
    with pytest.raises(TruthReplacedError):
        await graph.record_play(1, 1)
    (tmp_path / "elsewhere.sqlite3").rename(path)
    assert (await graph.record_play(1, 1)).first


async def test_a_truth_restored_into_the_same_file(graph: SQLiteGraph, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("UPDATE truth SET id = 'another'")
    with pytest.raises(TruthReplacedError):
        await graph.record_play(1, 1)
    with pytest.raises(TruthReplacedError):
        await graph.catalogue()
    assert other.execute("SELECT count(*) FROM users").fetchone() == (0,)
    other.close()


async def test_a_long_wal_is_started_again(graph: SQLiteGraph, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wal = path.with_name(path.name + "-wal")
    await graph.record_play(1, 1)
    assert wal.stat().st_size > 0
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM users").fetchone()
    monkeypatch.setattr(writer, "WAL_RESTART_BYTES", 0)
    monkeypatch.setattr(writer, "WAL_RESTART_WAIT_MS", 1)
    await graph.record_play(1, 2)  # a reader stays: the write is answered, the WAL grows on
    assert wal.stat().st_size > 0
    reader.execute("ROLLBACK")
    reader.close()
    monkeypatch.setattr(writer, "WAL_RESTART_AGAIN_SECONDS", 0.0)
    await graph.record_play(1, 3)
    assert wal.stat().st_size == 0
    assert len(await graph.played_games(1)) == 3


async def test_rows_acknowledged_long_ago_are_dropped(path: Path) -> None:
    now = 1_750_000_000.0
    graph = SQLiteGraph(path, clock=lambda: now)
    await graph.open()
    await graph.import_rows("plays", [PlayRow(user, 1) for user in range(1, 2_001)])
    rows = await graph.outbox(1_500)
    await graph.mark_published([row.id for row in rows])
    now += 3_600
    await graph.acknowledge([row.id for row in rows])
    connection = sqlite3.connect(path)
    now += 599
    await graph.acknowledge([])
    assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (2_000,)
    now += 2
    await graph.acknowledge([])
    await graph.acknowledge([])
    assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (500,)
    assert len(await graph.outbox(1_000)) == 500
    connection.close()
    await graph.close()


async def test_an_append_to_a_long_log_writes_few_pages(graph: SQLiteGraph, path: Path) -> None:
    await graph.import_rows("plays", [PlayRow(1, game) for game in range(1, 5_003)])
    await graph.save_games([GameRow(game, None) for game in range(10_000, 10_010)])
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    for game in range(10_000, 10_010):
        await graph.record_play(1, game)
    _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    connection.close()
    assert pages / 10 <= 6  # the log alone has six: the one that changed, the row's own, times, outbox and its index
