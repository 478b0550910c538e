"""`token`, `status`, `dead-letters` and wrong usage, as programs."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
import redis

from events.dead_letters import KEY
from signals.embedded_redis import socket_path
from tests.cli.commands import Headcount, Server, served

SECRET = "a secret of at least thirty-two bytes"


@pytest.fixture
def server(headcount: Headcount) -> Iterator[Server]:
    with served(headcount) as server:
        yield server


def test_the_version(headcount: Headcount) -> None:
    assert re.fullmatch(r"headcount, version \d+\.\d+\.\d+\n", headcount.run("--version").stdout)


def test_help_lists_what_there_is(headcount: Headcount) -> None:
    for arguments in ([], ["serve"], ["work"], ["import"], ["token"], ["status"], ["reconcile"], ["dead-letters"]):
        done = headcount.run(*arguments, "--help")
        assert (done.returncode, done.stderr) == (0, "")
    shown = headcount.run("--help").stdout
    listed = re.findall(r"^  ([a-z][a-z-]*)  ", shown, re.MULTILINE)
    assert listed == ["serve", "work", "import", "token", "status", "reconcile", "dead-letters"]
    assert not re.search(r"^  [a-z].*\.\.\.$", shown, re.MULTILINE), "a text that is cut short"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["token"],
        ["token", "0"],
        ["token", "-1"],
        ["token", "me"],
        ["token", str(2**63)],
        ["token", "9" * 200],
        ["token", "7", "--scope", "everything"],
        ["token", "7", "--expires", "soon"],
        ["token", "7", "--expires", "0s"],
        ["serve", "--port", "65536"],
        ["serve", "--processes", "0"],
        ["import", "--on-error", "ignore"],
        ["reconcile", "--user", "0"],
        ["dead-letters"],
        ["dead-letters", "list", "--limit", "0"],
    ],
)
def test_wrong_usage_is_exit_code_2(headcount: Headcount, arguments: list[str]) -> None:
    done = headcount.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not headcount.data_dir.exists()


def test_a_token_is_all_that_is_printed(headcount: Headcount) -> None:
    arguments = ["token", "7", "--scope", "runs:write", "--scope", "catalog:write", "--expires", "15m"]
    done = headcount.run(*arguments, jwt_secret=SECRET)
    assert (done.returncode, done.stderr) == (0, "")
    claims = jwt.decode(done.stdout.removesuffix("\n"), SECRET, algorithms=["HS256"])
    assert (claims["sub"], claims["scope"]) == ("7", "catalog:write runs:write")
    assert 898 <= claims["exp"] - claims["iat"] <= 901


def test_without_a_secret_one_is_made_and_kept(headcount: Headcount) -> None:
    first, second = headcount.run("token", "7"), headcount.run("token", "8")
    path = headcount.data_dir / "jwt_secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for done, user in ((first, "7"), (second, "8")):
        claims = jwt.decode(done.stdout.strip(), path.read_bytes().strip(), algorithms=["HS256"])
        assert claims["sub"] == user


def test_a_server_with_the_keys_of_others_signs_nothing(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"keys": []}')
    assert "signed elsewhere" in headcount.fails("token", "7", jwks_file=tmp_path / "keys.json")


@pytest.mark.parametrize("arguments", [["status"], ["dead-letters", "list"], ["dead-letters", "replay"]])
def test_without_a_truth_there_is_nothing_to_tell(headcount: Headcount, arguments: list[str]) -> None:
    assert headcount.fails(*arguments) == f"there is no truth yet in the data folder {headcount.data_dir}"
    assert not headcount.data_dir.exists()


def test_status_alone_starts_redis_for_as_long_as_it_runs(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "plays.tsv").write_text("user_id\tgame_id\n1\t1\n1\t2\n2\t1\n")
    assert headcount.run("import", "--plays", "plays.tsv").returncode == 0
    done = headcount.run("status", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["held_by"], found["redis_error"]) == (None, None)
    assert {name: found["truth"][name] for name in ("users", "games", "friendships", "plays")} == {
        "users": 2,
        "games": 2,
        "friendships": 0,
        "plays": 3,
    }
    assert (found["redis"]["live"], found["redis"]["recount_leader"]) == (None, None)
    assert [part["partition"] for part in found["redis"]["event_lag"]] == list(range(8))
    with pytest.raises(redis.exceptions.ConnectionError):
        redis.Redis(unix_socket_path=str(socket_path(headcount.data_dir))).ping()


def test_status_without_its_redis_says_so_and_still_tells_the_rest(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "users.tsv").write_text("user_id\n1\n")
    headcount.run("import", "--users", "users.tsv")
    done = headcount.run("status", redis_url="redis://127.0.0.1:1")
    assert done.returncode == 0
    assert "the Redis of HEADCOUNT_REDIS_URL does not answer" in " ".join(done.stdout.split())
    assert re.search(r"^users +1\b", done.stdout, re.MULTILINE)
    found = json.loads(headcount.run("status", "--json", redis_url="redis://127.0.0.1:1").stdout)
    assert found["redis"] is None
    assert found["truth"]["users"] == 1
    assert headcount.fails("dead-letters", "list", redis_url="nonsense").startswith("HEADCOUNT_REDIS_URL: ")


def test_status_and_dead_letters_beside_a_server(headcount: Headcount, server: Server) -> None:
    found = json.loads(headcount.run("status", "--json").stdout)
    assert found["held_by"] == f"headcount serve, process {server.process.pid}"
    assert found["redis"]["recount_leader"].endswith(f", process {server.process.pid}")
    assert found["redis"]["live"]["age_seconds"] < 30
    with redis.Redis(unix_socket_path=str(socket_path(headcount.data_dir))) as client:
        for number in range(3):
            client.xadd(KEY, {"p": 1, "e": f'[{number},"log",1,0,0,0]', "error": "Broken: a\nbug", "attempts": 5})
    listed = headcount.run("dead-letters", "list")
    lines = listed.stdout.splitlines()
    assert len(lines) == 3
    assert lines[0].endswith('5 attempts  [0,"log",1,0,0,0]  Broken: a bug')
    assert listed.stderr == "3 of 3 dead letters\n"
    letters = [
        json.loads(line) for line in headcount.run("dead-letters", "list", "--json", "--limit=2").stdout.splitlines()
    ]
    assert [(letter["event"], letter["partition"]) for letter in letters] == [
        ('[0,"log",1,0,0,0]', 1),
        ('[1,"log",1,0,0,0]', 1),
    ]
    assert headcount.run("dead-letters", "replay", letters[1]["id"]).stdout == "1 dead letter replayed\n"
    assert headcount.run("dead-letters", "replay").stdout == "2 dead letters replayed\n"
    assert headcount.run("dead-letters", "list").stdout == ""
    assert headcount.fails("dead-letters", "replay", "nonsense") == "not the id of a dead letter: 'nonsense'"
    assert server.process.poll() is None
