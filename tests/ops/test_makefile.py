from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from ops.stamp import ROOT
from tests.conftest import skip_or_fail


def make(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    found = shutil.which("make")
    if found is None:
        skip_or_fail("there is no make")
    environment = {"PATH": path or "/usr/bin:/bin", "LC_ALL": "C"}
    return subprocess.run([found, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


def test_make_alone_explains_every_target() -> None:
    printed = make().stdout
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    explained = re.findall(r"^make ([a-z]+) +\S", printed, re.MULTILINE)
    assert sorted(explained) == sorted(phony.split())


@pytest.mark.parametrize("target", ["setup", "run", "test", "check"])
def test_without_a_python_new_enough_one_line_says_so(target: str) -> None:
    answer = make(target, "PYTHON=/nonexistent/python3")
    assert answer.returncode == 2
    reason, *rest = answer.stderr.splitlines()
    assert reason == "make: no Python 3.11 or newer found; name one: make PYTHON=/path/to/python3.11"
    assert len(rest) == 1  # make's own word
    assert answer.stdout == ""
