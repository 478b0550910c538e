"""Running `headcount` as people do: as a program."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 60


class Headcount:
    """The program with a data folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADCOUNT_")}
        self.environment = {**inherited, "PYTHONPATH": str(ROOT), "HEADCOUNT_DATA_DIR": str(self.data_dir)}

    def start(self, *arguments: object, **settings: object) -> subprocess.Popen[str]:
        """Start it; `settings` are variables without their prefix."""
        variables = {f"HEADCOUNT_{name.upper()}": str(value) for name, value in settings.items()}
        return subprocess.Popen(
            [sys.executable, "-m", "cli", *map(str, arguments)],
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: object, **settings: object) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        process = self.start(*arguments, **settings)
        try:
            out, err = process.communicate(timeout=TIMEOUT_SECONDS)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def fails(self, *arguments: object, **settings: object) -> str:
        """Run what cannot be done: exit code 1, nothing on stdout, and one line on stderr, which is returned."""
        done = self.run(*arguments, **settings)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert done.stderr.startswith("Error: "), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr.removeprefix("Error: ").rstrip("\n")


class Server(NamedTuple):
    """A server that answers."""

    process: subprocess.Popen[str]
    address: str


@contextlib.contextmanager
def served(headcount: Headcount, *options: str, port: int = 0) -> Iterator[Server]:
    """A server of the program's data folder on a port, by default a free one, stopped at the end."""
    process = headcount.start("serve", "--port", port, *options)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        found = re.search(r"http://\S+", first)
        assert found is not None, first or process.communicate(timeout=TIMEOUT_SECONDS)
        yield Server(process, found[0])
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
