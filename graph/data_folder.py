"""The data folder: made when it is missing, and locked by the one process that serves from it."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from pathlib import Path

#: A command that only looks whether the folder is locked holds the lock for an instant; a server outwaits that.
LOCK_WAIT_SECONDS = 0.5
_LOCK_POLL_SECONDS = 0.02


class DataFolderError(Exception):
    """The data folder cannot be used; the text is one line."""


class DataFolderLockedError(DataFolderError):
    """Another process holds the data folder."""


class DataFolder:
    """A folder for the truth, the embedded Redis and the token secret.

    Whoever runs the embedded Redis of a folder holds its lock. The lock is the kernel's (flock), so that it is gone
    when its process is, however that ended.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._lock: int | None = None

    @property
    def truth_path(self) -> Path:
        """Where the SQLite truth is."""
        return self.path / "truth.sqlite3"

    @property
    def lock_path(self) -> Path:
        """The file that is locked; it holds its holder's process id and what that is."""
        return self.path / "serve.lock"

    def prepare(self) -> None:
        """Make the folder, for this user alone, and try whether it can be written.

        Raises:
            DataFolderError: it cannot; says why.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Modes and owners do not tell (read-only mounts, quotas, a full disk): a file that was written does.
            with tempfile.TemporaryFile(dir=self.path) as probe:
                probe.write(b"\0" * 4096)
                probe.flush()
        except FileExistsError:
            raise DataFolderError(f"the data folder {self.path} is a file") from None
        except OSError as error:
            raise DataFolderError(f"the data folder {self.path} cannot be written: {error.strerror}") from None

    def lock(self, holder: str = "serve") -> None:
        """Take the lock, held until `unlock` or the end of the process.

        Args:
            holder: what takes it, for the message that others get.

        Raises:
            DataFolderLockedError: another process holds it; says which.
            DataFolderError: the lock file cannot be written.
        """
        try:
            file = os.open(self.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataFolderError(f"the data folder {self.path} cannot be locked: {error.strerror}") from None
        try:
            if not _lock(file, fcntl.LOCK_EX, LOCK_WAIT_SECONDS):
                raise DataFolderLockedError(f"the data folder {self.path} is in use by {_holder(file)}")
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()} {holder}\n".encode(), 0)
        except OSError as error:
            os.close(file)
            raise DataFolderError(f"the data folder {self.path} cannot be locked: {error.strerror}") from None
        except DataFolderError:
            os.close(file)
            raise
        self._lock = file

    def unlock(self) -> None:
        """Give the lock back."""
        file, self._lock = self._lock, None
        if file is not None:
            os.ftruncate(file, 0)
            os.close(file)

    def holder(self) -> str | None:
        """What other process holds the lock, "headcount serve, process 123", or None."""
        try:
            file = os.open(self.lock_path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            # Shared, so that two who look do not take each other for a holder.
            return None if _lock(file, fcntl.LOCK_SH, 0) else _holder(file)
        finally:
            os.close(file)


def _lock(file: int, operation: int, wait_seconds: float) -> bool:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
        else:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOCK_POLL_SECONDS)


def _holder(file: int) -> str:
    process, _, holder = os.pread(file, 100, 0).decode(errors="replace").strip().partition(" ")
    return f"headcount {holder}, process {process}" if process else "another process"
