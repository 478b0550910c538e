"""Tables: delimiters, quotes, encodings, compression, and files that are no tables."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.imports.tables import Table, TableError

GAMES = ("game_id", "name")


def read(path: Path, content: bytes | str) -> list[list[str]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    table = Table(path, GAMES, ("game_id",))
    try:
        return [row.fields for row in table.rows()]
    finally:
        table.close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("games.tsv", "game_id\tname\n7\tTea Regatta\n8\tFog, Ltd\n"),
        ("games.csv", 'game_id,name\n7,Tea Regatta\n8,"Fog, Ltd"\n'),
        ("games.txt", "game_id\tname\n7\tTea Regatta\n8\tFog, Ltd\n"),
        ("misnamed.csv", "game_id\tname\n7\tTea Regatta\n8\tFog, Ltd\n"),
        ("misnamed.tsv", 'game_id,name\n7,Tea Regatta\n8,"Fog, Ltd"\n'),
        ("no-last-newline.tsv", "game_id\tname\n7\tTea Regatta\n8\tFog, Ltd"),
        ("crlf.tsv", "game_id\tname\r\n7\tTea Regatta\r\n8\tFog, Ltd\r\n"),
        ("cr.tsv", "game_id\tname\r7\tTea Regatta\r8\tFog, Ltd\r"),
        ("bom.tsv", "\ufeffgame_id\tname\n7\tTea Regatta\n8\tFog, Ltd\n"),
        ("bom-quoted-header.csv", '\ufeff"game_id","name"\r\n7,Tea Regatta\r\n8,"Fog, Ltd"\r\n'),
        ("spaced-header.tsv", "game_id \t name\n7\tTea Regatta\n8\tFog, Ltd\n"),
        ("empty-lines.tsv", "game_id\tname\n\n7\tTea Regatta\n\n\n8\tFog, Ltd\n\n"),
    ],
)
def test_every_spelling_of_a_table_reads_alike(tmp_path: Path, name: str, content: str) -> None:
    expected = [["7", "Tea Regatta"], ["8", "Fog, Ltd"]]
    assert read(tmp_path / name, content) == expected
    assert read(tmp_path / f"{name}.gz", gzip.compress(content.encode())) == expected
    assert read(tmp_path / "gzip-by-content", gzip.compress(content.encode())) == expected or name.endswith(".csv")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('7\t"Tab\there"\n', ["Tab\there"]),
        ('7\t"Line\nbreak"\n', ["Line\nbreak"]),
        ('7\t"Line\r\nbreak"\r\n8\tNext\r\n', ["Line\nbreak", "Next"]),
        ('7\t"Both\nof\tthem"\n8\tNext\n', ["Both\nof\tthem", "Next"]),
        ('7\t"Empty\n\n\nlines"\n8\tNext\n', ["Empty\n\n\nlines", "Next"]),
        ('7\t"say ""hey"""\n', ['say "hey"']),
        ('7\t"""hey"""\n', ['"hey"']),
        ('7\t""\n', [""]),
        ('7\t"Al" Yank\n8\tNext\n', ['"Al" Yank', "Next"]),
        ("7\tRoyce 5'9\"\n8\tNext\n", ["Royce 5'9\"", "Next"]),
        ('7\tThe "K"\n', ['The "K"']),
        ('7\t"never closed\n8\tNext\n', ['"never closed', "Next"]),
        ('7\t"never closed\n8\tFive foot 9"\n9\tNext\n', ['"never closed', 'Five foot 9"', "Next"]),
        ('7\t"', ['"']),
    ],
)
def test_quotes_count_where_they_close_and_are_themselves_elsewhere(
    tmp_path: Path, text: str, names: list[str]
) -> None:
    rows = read(tmp_path / "games.tsv", "game_id\tname\n" + text)
    assert [name for _, name in rows] == names
    assert [game_id for game_id, _ in rows] == [str(7 + place) for place in range(len(names))]


def test_a_quote_that_never_closes_swallows_no_rows_of_a_long_file(tmp_path: Path) -> None:
    lines = [
        f'{number}\t"odd {number}' if number % 1000 == 1 else f"{number}\tGame {number}" for number in range(1, 5001)
    ]
    assert len(read(tmp_path / "games.tsv", "game_id\tname\n" + "\n".join(lines))) == 5000


@given(
    rows=st.lists(
        st.tuples(
            st.integers(1, 2**63 - 1).map(str),
            st.text(st.characters(codec="utf-8", exclude_categories=["Nd"], exclude_characters="\r\0"), max_size=12),
        ),
        max_size=12,
    ),
    delimiter=st.sampled_from(["\t", ","]),
)
def test_what_the_csv_module_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], delimiter: str
) -> None:
    path = tmp_path_factory.mktemp("written") / "games.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerows([GAMES, *rows])
    # Names without digits: a second line of a name that reads as a row of its own cannot be told from one.
    assert read(path, path.read_bytes()) == [list(row) for row in rows]


def test_a_row_knows_its_line_and_its_text(tmp_path: Path) -> None:
    path = tmp_path / "games.tsv"
    path.write_text('game_id\tname\n\n7\t"a\nb"\n8\tNext\n')
    table = Table(path, GAMES, ("game_id",))
    assert [(row.line, row.text) for row in table.rows()] == [(3, '7\t"a\nb"'), (5, "8\tNext")]
    table.close()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"game_id\tTitle\n7\tx\n", "the column 'name' is missing in the header, which has 'game_id', 'Title'"),
        (b"game_id;name\n7;x\n", "the column 'game_id' is missing"),
        (b"game_id\tname\tname\n7\tx\ty\n", "the column 'name' stands twice"),
        ("game_id\tname\n7\tx\n".encode("utf-16"), "is not UTF-8"),
        ("game_id\tname\n7\tx\n".encode("utf-16-le"), "is not UTF-8"),
        ("game_id\tname\tgrün\n7\tx\ty\n".encode("latin-1"), "the header is not UTF-8"),
        (gzip.compress(b"game_id\tname\n" * 9000, mtime=0)[:40], "cannot be read"),
        (b"\x1f\x8bnot gzip at all", "cannot be read"),
        (b"PK\x03\x04\0\0\0\0", "is not UTF-8"),
    ],
)
def test_what_is_no_table_is_refused_with_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(TableError) as error:
        read(tmp_path / "games.tsv", content)
    assert says in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "games.tsv"))
    assert "\n" not in str(error.value)


def test_a_header_alone_has_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path / "games.tsv", "game_id\tname\n") == []


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="line 2: the line does not end"):
        read(tmp_path / "games.tsv", b"game_id\tname\n7\t" + b"x" * (2 << 20))


def test_a_gzip_file_that_breaks_off_gives_its_whole_rows_first(tmp_path: Path) -> None:
    text = b"game_id\tname\n" + b"".join(b"%d\tGame %d\n" % (number, number * 7919) for number in range(1, 20_000))
    path = tmp_path / "games.tsv.gz"
    path.write_bytes(gzip.compress(text, mtime=0)[:-4000])
    table = Table(path, GAMES, ("game_id",))
    seen: list[str] = []
    with pytest.raises(TableError, match=r"after line \d+: cannot be read"):
        seen.extend(row.fields[0] for row in table.rows())
    table.close()
    assert len(seen) > 1000
    assert seen == [str(number) for number in range(1, len(seen) + 1)]


@pytest.mark.parametrize("make", ["missing", "folder"])
def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, make: str) -> None:
    path = tmp_path / "games.tsv"
    if make == "folder":
        path.mkdir()
    with pytest.raises(TableError, match=r"games\.tsv: (No such file|Is a directory)"):
        Table(path, GAMES, ("game_id",))


def test_the_real_catalogues_keep_their_quotes(lastfm: Path) -> None:
    for path in (lastfm / "games.tsv", lastfm.parent / "steam" / "games.tsv"):
        lines = path.read_text(encoding="utf-8").splitlines()
        table = Table(path, GAMES, ("game_id",))
        assert ["\t".join(row.fields) for row in table.rows()] == lines[1:]
        table.close()
