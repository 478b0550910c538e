"""`headcount import` as a program."""

from __future__ import annotations

import contextlib
import gzip
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.commands import ROOT, Headcount

POLL_SECONDS = 0.02


def counted(headcount: Headcount) -> int:
    """Rows in the tables of the truth so far; 0 while there is none."""
    path = headcount.data_dir / "truth.sqlite3"
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM games").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def test_the_lastfm_data_in_under_fifteen_seconds(headcount: Headcount, lastfm: Path) -> None:
    files = [f"--{kind}={lastfm / kind}.tsv" for kind in ("games", "friends", "plays")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = headcount.run("import", *files)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{lastfm}/games.tsv: all 17,632 rows imported",
        f"{lastfm}/friends.tsv: all 12,717 rows imported",
        f"{lastfm}/plays.tsv: all 92,834 rows imported",
    ]
    # Processor time, since a machine that runs tests side by side has other things to do; the start is in it.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 15


def test_rows_are_passed_over_and_counted(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "users.csv.gz").write_bytes(gzip.compress(b"user_id,name\r\n1,Uleton\r\nx,Bad\r\n0,Worse\r\n"))
    done = headcount.run("import", "--users", "users.csv.gz", "--on-error", "skip")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "users.csv.gz: 1 row imported",
        "users.csv.gz: 2 rows rejected, to users.csv.gz.rejects",
    ]
    assert (tmp_path / "users.csv.gz.rejects").read_text().splitlines()[1:] == [
        "3,\"user_id: 'x' is not an id, which is a decimal from 1 to 9223372036854775807\",x,Bad".replace('"', '"'),
        "4,\"user_id: '0' is not an id, which is a decimal from 1 to 9223372036854775807\",0,Worse",
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"user_id\n1\nzero\n2\n", "users.tsv, line 3, column user_id: 'zero' is not an id"),
        (b"id\n1\n", "users.tsv: the column 'user_id' is missing in the header, which has 'id'"),
        (b"", "users.tsv: is empty"),
        ("user_id\tname\n1\tgrün\n".encode("latin-1"), r"users.tsv, line 2, column name: 'gr\xfcn' is not UTF-8"),
        ("user_id\n1\n".encode("utf-16"), "users.tsv: is not UTF-8"),
    ],
)
def test_bad_files_are_one_line_and_exit_code_1(
    headcount: Headcount, tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "users.tsv").write_bytes(content)
    assert headcount.fails("import", "--users", "users.tsv").startswith(says)


def test_a_file_that_is_not_there(headcount: Headcount) -> None:
    assert headcount.fails("import", "--users", "nowhere.tsv") == "nowhere.tsv: No such file or directory"


def test_nothing_to_import_is_wrong_usage(headcount: Headcount) -> None:
    done = headcount.run("import")
    assert done.returncode == 2
    assert "give --games, --users, --friends or --plays" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_in_the_middle_says_how_far_it_got_and_loses_nothing(
    headcount: Headcount, tmp_path: Path, number: signal.Signals
) -> None:
    rows = 300_000
    (tmp_path / "games.tsv").write_text(
        "game_id\tname\n" + "".join(f"{game_id}\tGame {game_id}\n" for game_id in range(1, rows + 1))
    )
    process = headcount.start("import", "--games", "games.tsv")
    deadline = time.monotonic() + 30
    while counted(headcount) == 0 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, ""), err
    kept = counted(headcount)
    assert 0 < kept < rows
    line = err.splitlines()[-1]
    assert line == (
        f"Error: stopped; games.tsv: {kept:,} rows imported, up to line {kept + 1}, and nothing after it; "
        "importing again goes on from there"
    )


#: A file may not grow past this: to the program it looks as a disk does that is full.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
from cli import main
sys.argv[0] = "headcount"
main()
"""


def test_a_disk_that_is_full_is_one_line_and_keeps_whole_batches(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "games.tsv").write_text(
        "game_id\tname\n" + "".join(f"{game_id}\tGame {game_id}\n" for game_id in range(1, 100_001))
    )
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "import", "--games", "games.tsv"],
        cwd=tmp_path,
        env={**headcount.environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, ""), done
    line = done.stderr.splitlines()[-1]
    assert line.startswith("Error: ")
    assert "truth.sqlite3" in line
    kept = counted(headcount)
    assert line.endswith(f"games.tsv: {kept:,} rows imported, up to line {kept + 1}, and nothing after it")
