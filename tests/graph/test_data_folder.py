"""The data folder: made, tried, and locked by one process."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graph.data_folder import DataFolder, DataFolderError, DataFolderLockedError

HOLD = """
import sys
from pathlib import Path
from graph.data_folder import DataFolder
folder = DataFolder(Path(sys.argv[1]))
folder.prepare()
folder.lock("serve")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield process
    process.communicate()


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    DataFolder(tmp_path / "a" / "b").prepare()
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(DataFolderError, match="data is a file"):
        DataFolder(tmp_path / "data").prepare()
    with pytest.raises(DataFolderError, match="cannot be written: Not a directory"):
        DataFolder(tmp_path / "data" / "deeper").prepare()


def test_a_folder_that_cannot_be_written_is_refused() -> None:
    # /proc refuses everybody, root as well.
    with pytest.raises(DataFolderError, match=r"/proc/1/nothing cannot be written"):
        DataFolder(Path("/proc/1/nothing")).prepare()


def test_a_second_process_is_told_who_holds_the_folder(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    folder = DataFolder(tmp_path)
    with pytest.raises(DataFolderLockedError) as error:
        folder.lock()
    assert str(error.value) == f"the data folder {tmp_path} is in use by headcount serve, process {holder.pid}"
    assert folder.holder() == f"headcount serve, process {holder.pid}"


def test_a_killed_holder_leaves_no_lock(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    folder = DataFolder(tmp_path)
    assert folder.holder() is None
    folder.lock()
    folder.unlock()


def test_looking_does_not_lock(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    assert folder.holder() is None
    folder.lock("status")
    assert DataFolder(tmp_path).holder() == f"headcount status, process {os.getpid()}"
    folder.unlock()
    assert DataFolder(tmp_path).holder() is None
    folder.lock()
    folder.unlock()


def test_the_lock_is_not_inherited_by_programs_that_are_started(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.lock()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    folder.unlock()
    try:
        assert DataFolder(tmp_path).holder() is None
    finally:
        child.communicate(b"\n")
