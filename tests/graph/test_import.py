"""Imports: what they write, what they refuse, and where they stop."""

from __future__ import annotations

import asyncio
import gzip
import os
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from graph.imports.importer import FileReport, Importer, ImportStoppedError, OnError
from graph.imports.kinds import KindName
from graph.imports.tables import TableError
from graph.social_graph import GraphTotals
from graph.sqlite import SQLiteGraph

Text = str | bytes


class Silence:
    """Progress that nobody watches."""

    def begin(self, path: Path, size_bytes: int) -> None:
        pass

    def advance(self, rows: int, position_bytes: int) -> None:
        pass

    def end(self) -> None:
        pass


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[SQLiteGraph]:
    graph = SQLiteGraph(tmp_path / "truth.sqlite3")
    await graph.open()
    yield graph
    await graph.close()


def written(folder: Path, files: Mapping[KindName, Text]) -> dict[KindName, Path]:
    paths: dict[KindName, Path] = {}
    for kind, text in files.items():
        paths[kind] = folder / f"{kind}.tsv"
        paths[kind].write_bytes(text if isinstance(text, bytes) else text.encode())
    return paths


async def run(graph: SQLiteGraph, paths: Mapping[KindName, Path], on_error: OnError = "stop") -> list[FileReport]:
    importer = Importer(graph, paths, on_error=on_error, progress=Silence())
    await importer.run()
    return importer.reports


def content(path: Path) -> list[str]:
    """Everything in the truth."""
    with sqlite3.connect(path) as connection:
        lines = list(connection.iterdump())
    connection.close()
    return lines


WORLD: dict[KindName, Text] = {
    "games": "game_id\tname\timage_url\n1\tTea Regatta\thttps://example.test/1.png\n2\tFog, Ltd\t\n",
    "users": "user_id\tname\n1\tUleton\n2\t\n",
    "friends": "user_id\tfriend_id\n1\t2\n3\t1\n",
    "plays": "user_id\tgame_id\tplayed_at\n1\t1\t1700000000\n1\t2\t2023-11-15T00:00:00Z\n2\t1\t\n3\t2\t1700000001.5\n",
}


async def test_all_four_kinds(tmp_path: Path, graph: SQLiteGraph) -> None:
    reports = await run(graph, written(tmp_path, WORLD))
    assert [(report.path.name, report.rows, report.finished) for report in reports] == [
        ("games.tsv", 2, True),
        ("users.tsv", 2, True),
        ("friends.tsv", 2, True),
        ("plays.tsv", 4, True),
    ]
    games = (await graph.catalogue()).changed
    assert [(game.id, game.name, game.image_url) for game in games] == [
        (1, "Tea Regatta", "https://example.test/1.png"),
        (2, "Fog, Ltd", None),
    ]
    assert {user.id: user.name for user in (await graph.users([1, 2, 3])).values()} == {1: "Uleton", 2: None, 3: None}
    assert {user: sorted(of) for user, of in (await graph.friends([1, 2, 3])).items()} == {1: [2, 3], 2: [1], 3: [1]}
    log = await graph.played_games(1)
    assert [(entry.number, entry.played_at_ms) for entry in log] == [(1, 1_700_000_000_000), (2, 1_700_006_400_000)]
    assert (await graph.played_games(3))[0].played_at_ms == 1_700_000_001_500


@pytest.mark.parametrize("compressed", [False, True])
async def test_importing_again_changes_nothing(tmp_path: Path, graph: SQLiteGraph, compressed: bool) -> None:
    paths = written(tmp_path, WORLD)
    if compressed:
        for path in paths.values():
            path.write_bytes(gzip.compress(path.read_bytes()))
    await run(graph, paths)
    before = content(tmp_path / "truth.sqlite3")
    await run(graph, paths)
    assert content(tmp_path / "truth.sqlite3") == before


async def test_repeated_rows_and_both_directions_are_one_fact(tmp_path: Path, graph: SQLiteGraph) -> None:
    files: dict[KindName, Text] = {
        "games": "game_id\tname\n1\tTea\n1\tTea\n",
        "users": "user_id\n1\n1\n",
        "friends": "user_id\tfriend_id\n1\t2\n2\t1\n1\t2\n",
        "plays": "user_id\tgame_id\n1\t1\n2\t1\n1\t1\n1\t1\n",
    }
    await run(graph, written(tmp_path, files))
    totals = await graph.totals()
    assert (totals.users, totals.games, totals.friendships, totals.plays) == (2, 1, 1, 2)
    assert [entry.number for entry in await graph.played_games(1)] == [1]


async def test_plays_create_the_users_and_games_that_they_name(tmp_path: Path, graph: SQLiteGraph) -> None:
    await run(graph, written(tmp_path, {"plays": f"user_id\tgame_id\n{2**63 - 1}\t{2**63 - 1}\n"}))
    assert [(game.id, game.name) for game in (await graph.catalogue()).changed] == [(2**63 - 1, f"Game {2**63 - 1}")]
    assert list(await graph.users([2**63 - 1])) == [2**63 - 1]


async def test_columns_are_found_by_name(tmp_path: Path, graph: SQLiteGraph) -> None:
    await run(graph, written(tmp_path, {"plays": "hours\tgame_id\tuser_id\tstars\n9.5\t7\t3\t*****\n"}))
    assert [game.id for game in (await graph.catalogue()).changed] == [7]
    assert list(await graph.users([3, 7])) == [3]


async def test_a_header_alone_imports_nothing(tmp_path: Path, graph: SQLiteGraph) -> None:
    reports = await run(graph, written(tmp_path, {"plays": "user_id\tgame_id\n"}))
    assert reports[0].finished
    assert await graph.totals() == GraphTotals(0, 0, 0, 0, 0)


async def test_every_header_is_read_before_the_first_row_is_written(tmp_path: Path, graph: SQLiteGraph) -> None:
    with pytest.raises(TableError, match=r"plays\.tsv: the column 'game_id' is missing"):
        await run(graph, written(tmp_path, {**WORLD, "plays": "user_id\tgame\n1\t1\n"}))
    assert await graph.totals() == GraphTotals(0, 0, 0, 0, 0)


BAD_ROWS: list[tuple[KindName, Text, str, str | None]] = [
    ("users", "0\t", "not an id", "user_id"),
    ("users", "-1\t", "not an id", "user_id"),
    ("users", f"{2**63}\t", "not an id", "user_id"),
    ("users", "seven\t", "not an id", "user_id"),
    ("users", "9" * 200 + "\t", "not an id", "user_id"),
    ("users", "\t", "not an id", "user_id"),
    ("users", b"7\tcaf\xe9", "is not UTF-8", "name"),
    ("users", "7\t" + "x" * 201, "201 characters", "name"),
    ("users", "7", "1 fields where the header has 2", None),
    ("users", "7\ta\tb", "3 fields where the header has 2", None),
    ("games", "7\t", "the name is empty", "name"),
    ("games", "7\ta\0b", "NUL", "name"),
    ("friends", "7\t7", "their own friend", "friend_id"),
    ("friends", "7\t0", "not an id", "friend_id"),
    ("plays", "7\t1.5\t", "not an id", "game_id"),
    ("plays", "7\t1\tyesterday", "neither RFC 3339", "played_at"),
    ("plays", "7\t1\t1700000000000", "in the future", "played_at"),
]
HEADERS: dict[KindName, str] = {
    "games": "game_id\tname",
    "users": "user_id\tname",
    "friends": "user_id\tfriend_id",
    "plays": "user_id\tgame_id\tplayed_at",
}
GOOD_ROWS: dict[KindName, tuple[str, str]] = {
    "games": ("1\tTea", "2\tFog"),
    "users": ("1\tUleton", "2\t"),
    "friends": ("1\t2", "1\t3"),
    "plays": ("1\t1\t", "1\t2\t"),
}


def with_bad_row(kind: KindName, bad: Text) -> bytes:
    first, last = GOOD_ROWS[kind]
    bad = bad if isinstance(bad, bytes) else bad.encode()
    return b"\n".join([HEADERS[kind].encode(), first.encode(), bad, last.encode(), b""])


@pytest.mark.parametrize(("kind", "bad", "says", "column"), BAD_ROWS)
async def test_a_bad_row_stops_the_import_and_nothing_of_its_batch_is_kept(
    tmp_path: Path, graph: SQLiteGraph, kind: KindName, bad: Text, says: str, column: str | None
) -> None:
    paths = written(tmp_path, {kind: with_bad_row(kind, bad)})
    with pytest.raises(ImportStoppedError) as error:
        await run(graph, paths)
    line = str(error.value)
    place = f"{paths[kind]}, line 3, column {column}: " if column else f"{paths[kind]}, line 3: "
    assert line.startswith(place)
    assert says in line
    assert line.endswith(f"{paths[kind]}: nothing imported")
    assert len(line) < 400
    assert "\n" not in line
    assert await graph.totals() == GraphTotals(0, 0, 0, 0, 0)
    assert not (tmp_path / f"{kind}.tsv.rejects").exists()


@pytest.mark.parametrize(("kind", "bad", "says", "column"), BAD_ROWS)
async def test_a_bad_row_can_be_passed_over(
    tmp_path: Path, graph: SQLiteGraph, kind: KindName, bad: Text, says: str, column: str | None
) -> None:
    reports = await run(graph, written(tmp_path, {kind: with_bad_row(kind, bad)}), "skip")
    assert [(report.rows, report.rejected, report.finished) for report in reports] == [(2, 1, True)]
    header, row, nothing = (tmp_path / f"{kind}.tsv.rejects").read_bytes().split(b"\n")
    assert header.decode() == "rejected_line\trejected_rule\t" + HEADERS[kind]
    number, rule, raw = row.split(b"\t", 2)
    assert number == b"3"
    assert rule.decode().startswith(f"{column}: " if column else "")
    assert says in rule.decode()
    assert raw == (bad if isinstance(bad, bytes) else bad.encode())  # as it stood, byte for byte
    assert nothing == b""


async def test_an_import_that_stops_says_where_and_keeps_what_came_before(tmp_path: Path, graph: SQLiteGraph) -> None:
    rows = [f"{number}\t1" for number in range(1, 5001)]
    rows[4100] = "4101\tzero"
    paths = written(tmp_path, {"plays": "user_id\tgame_id\n" + "\n".join(rows) + "\n"})
    importer = Importer(graph, paths, progress=Silence())
    with pytest.raises(ImportStoppedError) as error:
        await importer.run()
    report = importer.reports[0]
    assert 0 < report.rows <= 4100
    assert report.line == report.rows + 1
    assert (await graph.totals()).plays == report.rows
    assert str(error.value).startswith(f"{paths['plays']}, line 4102, column game_id: 'zero' is not an id")
    assert str(error.value).endswith(f"{report.rows:,} rows imported, up to line {report.line}, and nothing after it")


async def test_rejected_rows_can_be_mended_and_imported(tmp_path: Path, graph: SQLiteGraph) -> None:
    text = 'user_id,name\n1,"Uleton, the first"\nx2,"Two\nlines, ""quoted"""\n3,a,b\n4,Iledor\n'
    path = tmp_path / "users.csv"
    path.write_text(text)
    await run(graph, {"users": path}, "skip")
    assert sorted(await graph.users([1, 2, 3, 4])) == [1, 4]
    rejects = tmp_path / "users.csv.rejects"
    rejects.write_text(rejects.read_text().replace("x2,", "2,").replace(",3,a,b\n", ',3,"a,b"\n'))
    await run(graph, {"users": rejects})
    names = {user.id: user.name for user in (await graph.users([1, 2, 3, 4])).values()}
    assert names == {1: "Uleton, the first", 2: 'Two\nlines, "quoted"', 3: "a,b", 4: "Iledor"}
    # And once more with a row still bad: the rejects of a rejects file are a table too.
    rejects.write_text(rejects.read_text() + "9,rule,zero,x\n")
    await run(graph, {"users": rejects}, "skip")
    again = tmp_path / "users.csv.rejects.rejects"
    again.write_text(again.read_text().replace("zero", "5"))
    await run(graph, {"users": again})
    assert sorted(await graph.users([5])) == [5]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, a folder that nobody can write")
async def test_rejects_go_to_the_current_folder_where_the_tables_cannot_be_written(
    tmp_path: Path, graph: SQLiteGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = written(tmp_path, {"users": "user_id\nzero\n1\n"})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    descriptor = os.open(paths["users"], os.O_RDONLY)
    reports = await run(graph, {"users": Path(f"/proc/self/fd/{descriptor}")}, "skip")
    os.close(descriptor)
    assert reports[0].rejects_path == Path(f"{descriptor}.rejects")
    assert "zero" in (tmp_path / "here" / f"{descriptor}.rejects").read_text()


async def test_rows_of_deleted_users_are_refused(tmp_path: Path, graph: SQLiteGraph) -> None:
    await graph.delete_user(7)
    await graph.delete_user(8)
    paths = written(tmp_path, {"friends": "user_id\tfriend_id\n1\t2\n1\t7\n8\t2\n3\t4\n0\t1\n"})
    with pytest.raises(ImportStoppedError, match=r"line 6, column user_id: '0' is not an id"):
        await run(graph, paths)
    reports = await run(graph, paths, "skip")
    assert (reports[0].rows, reports[0].rejected) == (2, 3)
    assert [line.split("\t")[:2] for line in (tmp_path / "friends.tsv.rejects").read_text().splitlines()[1:]] == [
        ["3", "friend_id: user 7 was deleted"],
        ["4", "user_id: user 8 was deleted"],
        ["6", "user_id: '0' is not an id, which is a decimal from 1 to 9223372036854775807"],
    ]
    paths = written(tmp_path, {"plays": "user_id\tgame_id\n1\t1\n7\t1\n"})
    with pytest.raises(ImportStoppedError, match=r"line 3, column user_id: user 7 was deleted; .*: nothing imported"):
        await run(graph, paths)


class StopAfter(Silence):
    """Stops an import once so many rows are in."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.importer: Importer | None = None

    def advance(self, rows: int, position_bytes: int) -> None:  # noqa: ARG002  # the protocol's
        if self.importer is not None and rows >= self.rows:
            self.importer.stop()


async def test_an_import_can_be_stopped_between_batches_and_gone_on_with(tmp_path: Path, graph: SQLiteGraph) -> None:
    rows = "\n".join(f"{number}\t{number % 97 + 1}" for number in range(1, 20_001))
    paths = written(tmp_path, {"plays": "user_id\tgame_id\n" + rows, "users": "user_id\n1\n"})
    progress = StopAfter(3000)
    importer = progress.importer = Importer(graph, paths, progress=progress)
    with pytest.raises(ImportStoppedError, match=r"^stopped; "):
        await importer.run()
    report = importer.reports[1]
    assert 3000 <= report.rows < 20_000
    assert (await graph.totals()).plays == report.rows
    await run(graph, paths)
    assert (await graph.totals()).plays == 20_000


async def test_others_write_while_an_import_runs(tmp_path: Path, graph: SQLiteGraph) -> None:
    rows = "\n".join(f"{number % 3000 + 1}\t{number % 977 + 1}" for number in range(1, 40_001))
    paths = written(tmp_path, {"plays": "user_id\tgame_id\n" + rows})
    other = SQLiteGraph(tmp_path / "truth.sqlite3")  # with a connection of its own, as another process has
    await other.open()
    importing = asyncio.create_task(run(graph, paths))
    waits: list[float] = []
    while not importing.done():
        started = time.monotonic()
        await other.set_friendship(1, len(waits) + 10, True)
        waits.append(time.monotonic() - started)
        await asyncio.sleep(0.005)
    await importing
    await other.close()
    assert len(waits) > 5
    assert sorted(waits)[len(waits) // 2] < 0.5
    assert len((await graph.friends([1]))[1]) == len(waits)


async def test_the_lastfm_data(tmp_path: Path, graph: SQLiteGraph, lastfm: Path) -> None:
    paths: dict[KindName, Path] = {
        "games": lastfm / "games.tsv",
        "friends": lastfm / "friends.tsv",
        "plays": lastfm / "plays.tsv",
    }
    await run(graph, paths)
    totals = await graph.totals()
    assert (totals.users, totals.games, totals.friendships, totals.plays) == (1892, 17_632, 12_717, 92_834)
    names = {str(game.id): game.name for game in (await graph.catalogue()).changed}
    lines = paths["games"].read_text(encoding="utf-8").splitlines()[1:]
    assert names == {game_id: name.strip() for game_id, name in (line.split("\t") for line in lines)}
    before = content(tmp_path / "truth.sqlite3")
    await run(graph, paths)
    assert content(tmp_path / "truth.sqlite3") == before


async def test_the_steam_data(graph: SQLiteGraph, lastfm: Path) -> None:
    steam = lastfm.parent / "steam"
    await run(graph, {"games": steam / "games.tsv", "plays": steam / "plays.tsv"})
    pairs = {tuple(line.split("\t")[:2]) for line in (steam / "plays.tsv").read_text().splitlines()[1:]}
    totals = await graph.totals()
    assert (totals.games, totals.plays) == (5155, len(pairs))
