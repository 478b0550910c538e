"""Web processes: kept running whatever becomes of one, and gone when whoever keeps them is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from server import serving
from server.serving import WebProcesses, listen
from tests.waiting import until

#: Writes its process id to a file of that name in the working folder, then waits for the end of the lifeline.
PROGRAM = "import os, sys; open(str(os.getpid()), 'w').close(); os.read(int(sys.argv[-1]), 1)"


@pytest.fixture
def sock() -> socket.socket:
    return listen("127.0.0.1", 0)


@contextlib.asynccontextmanager
async def kept(sock: socket.socket, count: int) -> AsyncIterator[None]:
    task = asyncio.create_task(WebProcesses(["-c", PROGRAM], sock, count).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        sock.close()


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serving, "RESTART_SECONDS", 0.01)


def begun() -> set[int]:
    return {int(path.name) for path in Path().iterdir()}


async def test_one_that_dies_is_replaced_and_all_are_stopped_at_the_end(sock: socket.socket) -> None:
    async with kept(sock, 2):
        await until(lambda: len(begun()) == 2)
        first = begun()
        os.kill(min(first), signal.SIGKILL)
        await until(lambda: len(begun()) == 3)
    for process in begun():
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


async def test_one_that_cannot_be_started_is_tried_again(sock: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = sys.executable
    monkeypatch.setattr(sys, "executable", "/absent/python")
    with capture_logs() as lines:
        async with kept(sock, 1):
            await until(lambda: len(lines) >= 2)
            assert {line["event"] for line in lines} == {"web_process_not_started"}
            monkeypatch.setattr(sys, "executable", executable)
            await until(lambda: len(begun()) == 1)


def test_the_socket_reaches_only_those_it_is_given_to(sock: socket.socket) -> None:
    # uvloop closes nothing in the programs that it starts: an embedded Redis would hold the port after a kill.
    assert not sock.get_inheritable()
    sock.close()
