"""`make bench`: every figure of this machine, one part after the other."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

from signals.embedded_redis import find_server

PARTS = ("graph", "bitmaps", "views", "pull", "live", "server")
DATA = Path(os.environ.get("HEADCOUNT_TEST_DATA", Path(__file__).parents[2] / "shared" / "data")) / "lastfm"


def main() -> None:
    """Run all parts, or those named on the command line; says what it ran on."""
    redis = subprocess.run([find_server(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {redis}")
    for part in sys.argv[1:] or PARTS:
        print(f"\n{part}", flush=True)
        options = ["--data", str(DATA)] if part == "server" and DATA.is_dir() else []
        subprocess.run([sys.executable, "-m", f"bench.{part}", *options], check=True)


if __name__ == "__main__":
    main()
