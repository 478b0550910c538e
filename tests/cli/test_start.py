"""What keeps `headcount serve` from starting: one clear line and exit code 1; and how it stops."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import httpx
import pytest
import redis

from signals.embedded_redis import socket_path
from tests.cli.commands import Headcount, served
from tests.waiting import until

EVERYWHERE = "0.0.0.0"  # noqa: S104  # nothing gets as far as listening on it


def test_a_port_that_is_taken(headcount: Headcount) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert headcount.fails("serve", "--port", port) == f"cannot listen on 127.0.0.1:{port}: Address already in use"


def test_a_second_server_on_the_same_folder(headcount: Headcount) -> None:
    with served(headcount) as first:
        assert headcount.fails("serve", "--port", 0) == (
            f"the data folder {headcount.data_dir} is in use by headcount serve, process {first.process.pid}"
        )
        assert httpx.get(f"{first.address}/healthz").status_code == 200


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("session_ttl_seconds", "soon", "HEADCOUNT_SESSION_TTL_SECONDS: "),
        ("session_ttl_seconds", "1", "HEADCOUNT_SESSION_TTL_SECONDS: "),
        ("log_level", "LOUD", "HEADCOUNT_LOG_LEVEL: "),
        ("redis_url", "localhost", "HEADCOUNT_REDIS_URL: must be an address that begins with redis://"),
        ("redis_url", "redis://:too short@host:port", "HEADCOUNT_REDIS_URL: must be an address"),
        ("jwks_file", "absent.json", "HEADCOUNT_JWKS_FILE: absent.json: No such file or directory"),
        ("jwt_secret", "too short", "HEADCOUNT_JWT_SECRET: must be 32 bytes or more"),
        ("allowed_origins", "play.example", "HEADCOUNT_ALLOWED_ORIGINS: "),
    ],
)
def test_a_wrong_setting(headcount: Headcount, name: str, value: str, says: str) -> None:
    # With several web processes too it is the one that was typed which says so.
    line = headcount.fails("serve", "--port", 0, "--processes", 2, **{name: value})
    assert line.startswith(says)
    assert "too short" not in line


def test_a_setting_that_there_is_none_of_is_told(headcount: Headcount) -> None:
    process = headcount.start("serve", "--port", 0, sesion_ttl_seconds=30)
    try:
        assert process.stderr is not None
        told = json.loads(process.stderr.readline())
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert (told["event"], told["name"]) == ("setting_unknown", "HEADCOUNT_SESION_TTL_SECONDS")


def test_a_data_folder_that_cannot_be_written(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    # Under a file and under /proc nobody can make a folder, root neither.
    for path in (tmp_path / "file" / "data", Path("/proc/1/nothing")):
        for command in (["serve", "--port", 0], ["token", 7], ["import", "--users", "file"], ["dead-letters", "list"]):
            line = headcount.fails(*command, data_dir=path)
            assert str(path) in line


def test_the_token_picker_is_for_loopback_only(headcount: Headcount) -> None:
    for flag in ("--dev", "--demo"):
        assert "loopback" in headcount.fails("serve", flag, "--host", EVERYWHERE, "--port", 0)


def test_a_secret_is_required_beyond_loopback(headcount: Headcount) -> None:
    assert headcount.fails("serve", "--host", EVERYWHERE, "--port", 0).startswith("HEADCOUNT_JWT_SECRET: required")


def test_the_demo_world_does_not_mix_with_other_data(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "games.tsv").write_text("game_id\tname\n1\tAnother\n")
    headcount.run("import", "--games", "games.tsv")
    assert "not the demo world's; serve without --demo" in headcount.fails("serve", "--demo", "--port", 0)


def test_a_truth_that_is_no_database(headcount: Headcount) -> None:
    headcount.data_dir.mkdir()
    (headcount.data_dir / "truth.sqlite3").write_text("not a database, but long enough to be looked at " * 100)
    for command in (["serve", "--port", 0], ["status"]):
        assert "truth.sqlite3" in headcount.fails(*command)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_in_order_and_starts_again(headcount: Headcount, number: signal.Signals) -> None:
    for _ in range(2):
        with served(headcount) as server:
            server.process.send_signal(number)
            out, err = server.process.communicate(timeout=30)
            assert server.process.returncode == 0, (out, err)
            assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_stopped_while_it_starts_it_leaves_no_redis_behind(headcount: Headcount, number: signal.Signals) -> None:
    process = headcount.start("serve", "--demo", "--port", 0)
    try:
        # The demo world takes seconds to fill: Redis answers long before anything is served.
        await until(lambda: _answers(headcount.data_dir), seconds=60)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (0, "", "")
    assert not _answers(headcount.data_dir)


def _answers(data_dir: Path) -> bool:
    try:
        with redis.Redis(unix_socket_path=str(socket_path(data_dir))) as client:
            return bool(client.ping())
    except redis.exceptions.RedisError:
        return False
