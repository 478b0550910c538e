"""`make bench`: every figure of this machine, one part after the other.

    python -m bench [--save NAME] [part …]

`--save` keeps what is printed in `bench/results/NAME.txt` too.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from signals.embedded_redis import find_server

PARTS = ("graph", "bitmaps", "views", "pull", "live", "server")
RESULTS = Path(__file__).parent / "results"
DATA = Path(os.environ.get("HEADCOUNT_TEST_DATA", Path(__file__).parents[2] / "shared" / "data")) / "lastfm"


def machine() -> str:
    """What the figures were taken on."""
    redis = subprocess.run([find_server(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.platform()}, Python {platform.python_version()}",
        f"{os.cpu_count()} CPUs ({processor()}), {memory_gb():.0f} GB, load average {os.getloadavg()[0]:.1f}",
        redis,
    ]
    return "\n".join(lines)


def processor() -> str:
    """Its name, where the system tells."""
    names = Path("/proc/cpuinfo")
    if names.exists():
        for line in names.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory_gb() -> float:
    """All of it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def run_part(part: str, tell: Callable[[str], None]) -> None:
    """Run one part in a process of its own, and tell what it prints as it comes."""
    options = ["--data", str(DATA)] if part == "server" and DATA.is_dir() else []
    command = [sys.executable, "-u", "-m", f"bench.{part}", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101  # for mypy: it is a pipe
        for line in process.stdout:
            tell(line.rstrip("\n"))
    if process.returncode:
        raise SystemExit(f"bench.{part} ended with {process.returncode}")


def main() -> None:
    """Run all parts, or those named on the command line; says what it ran on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all of them unless named")
    parser.add_argument("--save", metavar="NAME", help="keep the output in bench/results/NAME.txt")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    told: list[str] = []

    def tell(line: str) -> None:
        print(line, flush=True)
        told.append(line)

    tell(machine())
    for part in arguments.parts or PARTS:
        tell(f"\n{part}")
        run_part(part, tell)
    if arguments.save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{arguments.save}.txt").write_text("\n".join(told) + "\n")


if __name__ == "__main__":
    main()
