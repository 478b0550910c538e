"""A step of the set-up that is done once and not twice at a time."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[1]


def digest(paths: Iterable[Path], *words: str) -> str:
    """A fingerprint of files' names and contents, and of words; it does not depend on the files' order or times."""
    state = hashlib.sha256()
    for word in words:
        state.update(b"word\0" + word.encode() + b"\0")
    for path in sorted(paths):
        content = path.read_bytes()
        name = path.relative_to(ROOT).as_posix().encode() if path.is_relative_to(ROOT) else bytes(path)
        state.update(b"file\0%s\0%d\0" % (name, len(content)) + content)
    return state.hexdigest()


class Stamp:
    """A file that holds the fingerprint of what a finished step was made from."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def exists(self) -> bool:
        return self._path.exists()

    def holds(self, fingerprint: str) -> bool:
        try:
            return self._path.read_text(encoding="ascii") == fingerprint
        except (OSError, UnicodeDecodeError):
            return False

    def write(self, fingerprint: str) -> None:
        self._path.write_text(fingerprint, encoding="ascii")

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


@contextmanager
def alone(path: Path, waiting: str) -> Iterator[TextIO]:
    """Hold a lock file, so that two set-ups of one checkout take turns; the system frees it when a process dies.

    Args:
        path: the lock file, made where absent and left where it is.
        waiting: the line printed when another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waiting, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
