"""Bring the npm packages that the tests run as clients and auditors: `python -m ops.standards`.

Where they cannot be had, those tests are skipped (HEADCOUNT_REQUIRE_ALL=1: fail), and one line says so here.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from ops.bundle import find_node, find_npm, install, is_installed
from ops.stamp import ROOT, alone

FOLDER = ROOT / "tests" / "standards"


def node() -> Path | None:
    """The Node to run them with; None where there is none, or they are not installed as locked."""
    return find_node() if is_installed(FOLDER) else None


def main() -> None:
    with alone(ROOT / ".setup.lock", "test: waiting for a set-up of this folder"):
        try:
            install(find_npm(), FOLDER)
        except (OSError, subprocess.CalledProcessError):
            print("test: npm's packages of tests/standards cannot be had; their tests are skipped", flush=True)


if __name__ == "__main__":
    main()
