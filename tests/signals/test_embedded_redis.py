"""The embedded Redis: in folders of any name, after one that was left behind, and where it cannot start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from signals.embedded_redis import EmbeddedRedis, EmbeddedRedisError
from signals.redis import connect
from tests.waiting import until


@contextlib.asynccontextmanager
async def started(data_dir: Path) -> AsyncIterator[EmbeddedRedis]:
    server = EmbeddedRedis(data_dir)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


async def ask(server: EmbeddedRedis, *command: str) -> object:
    client = connect(server.url, client_name="test")
    try:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]
    finally:
        await client.aclose()


async def left_behind(data_dir: Path) -> asyncio.subprocess.Process:
    """A Redis whose owner was killed: nobody watches it."""
    server = EmbeddedRedis(data_dir)
    await server.start()
    assert server._watcher is not None
    assert server.process is not None
    server._watcher.cancel()
    assert await ask(server, "SET", "kept", "1")
    return server.process


@pytest.mark.parametrize(
    "name",
    ["with space", "50%25", "a?b=1#c", "tab\tline\nend", "back\\slash", "ünï'\"cödé", "-dash", "long" * 60],
    ids=["space", "percent", "query", "control", "backslash", "letters", "dash", "longer than a socket's path"],
)
async def test_a_data_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    async with started(tmp_path / name) as server:
        assert await ask(server, "PING") in (b"PONG", True)


async def test_one_that_was_left_behind_is_ended_and_what_it_held_is_kept(tmp_path: Path) -> None:
    orphan = await left_behind(tmp_path)
    async with started(tmp_path) as server:
        assert orphan.returncode is not None or await orphan.wait() == 0
        assert await ask(server, "GET", "kept") == b"1"


async def test_one_that_was_left_behind_and_hangs_is_killed_before_another_writes_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signals.embedded_redis.ORPHAN_SECONDS", 0.1)
    orphan = await left_behind(tmp_path)
    os.kill(orphan.pid, signal.SIGSTOP)
    async with started(tmp_path) as server:
        assert await asyncio.wait_for(orphan.wait(), 10) == -signal.SIGKILL
        assert await ask(server, "GET", "kept") == b"1"


async def test_a_file_that_it_cannot_read_is_told_in_one_line_with_what_to_do(tmp_path: Path) -> None:
    async with started(tmp_path) as server:
        assert await ask(server, "SET", "kept", "1")
    (appended,) = (server.folder / "appendonlydir").glob("*.incr.aof")
    appended.write_bytes(b"\0" * 64)
    with pytest.raises(EmbeddedRedisError) as refused:
        await EmbeddedRedis(tmp_path).start()
    line = str(refused.value)
    assert "\n" not in line
    assert "did not start: Bad file format reading the append only file" in line
    assert f"{server.log_path} has more; all that {server.folder} holds is derived and may be removed" in line


async def test_it_is_started_again_also_where_that_fails_at_first(tmp_path: Path) -> None:
    async with started(tmp_path) as server:
        assert server.process is not None
        first = server.process
        server.log_path.unlink()
        server.log_path.mkdir()
        first.kill()
        await first.wait()
        assert server._watcher is not None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(server._watcher), 0.3)
        server.log_path.rmdir()

        async def answers() -> bool:
            with contextlib.suppress(RedisError, OSError):
                return await ask(server, "PING") in (b"PONG", True)
            return False

        await until(answers)
        assert server.process is not first


async def test_it_is_stopped_also_where_its_watcher_loses_a_cancellation(tmp_path: Path) -> None:
    async def watch_on() -> None:
        for _ in range(2):  # as asyncio.wait_for of Python 3.11 does when its reply arrives at the same moment
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3_600)

    server = EmbeddedRedis(tmp_path)
    await server.start()
    process, watcher = server.process, server._watcher
    assert process is not None
    assert watcher is not None
    watcher.cancel()
    server._watcher = asyncio.create_task(watch_on())
    await asyncio.sleep(0)
    await asyncio.wait_for(server.stop(), 10)
    assert process.returncode == 0
