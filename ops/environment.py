"""Make `.venv` from requirements-dev.txt and install this checkout in it: `python -m ops.environment`."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from ops.stamp import ROOT, Stamp, alone, digest

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements-dev.txt"


def pip(python: Path, *arguments: str) -> None:
    """Run pip in an environment, without questions and without its word about newer pips."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    subprocess.run(command, check=True, cwd=ROOT)


def _interpreter() -> str | None:
    """The version of `.venv`'s Python, or None where it is absent, too old or without pip."""
    program = "import pip, sys; print(sys.version); sys.exit(sys.version_info < (3, 11))"
    try:
        answer = subprocess.run([str(PYTHON), "-c", program], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def set_up() -> None:
    """Bring `.venv` to what the lock file and pyproject.toml say; return at once where it is there already."""
    place = Stamp(VENV / ".headcount-place")
    packages = Stamp(VENV / ".headcount-packages")
    install = Stamp(VENV / ".headcount-install")
    here = digest((), str(ROOT))

    version = _interpreter()
    # Its scripts carry the absolute path they were made for: a moved or copied folder needs a new environment.
    moved = place.exists() and not place.holds(here)
    if version is None or moved:
        print(f"setup: .venv with Python {sys.version.split()[0]}", flush=True)
        for stamp in (packages, install):
            stamp.remove()
        venv.create(VENV, clear=True, with_pip=True, symlinks=True)
        version = _interpreter() or ""
    place.write(here)

    wanted = digest([LOCK], version)
    if not packages.holds(wanted):
        print("setup: packages of requirements-dev.txt (a minute or two)", flush=True)
        packages.remove()
        pip(PYTHON, "install", "--quiet", "--require-hashes", "-r", LOCK.name)
        packages.write(wanted)

    wanted = digest([ROOT / "pyproject.toml"], version)
    if not install.holds(wanted):
        print("setup: headcount itself", flush=True)
        pip(PYTHON, "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", ".")
        install.write(wanted)


def main() -> None:
    try:
        with alone(ROOT / ".setup.lock", "setup: waiting for another set-up of this folder"):
            set_up()
    except subprocess.CalledProcessError as error:
        sys.exit(f"setup: {' '.join(map(str, error.cmd[:4]))} … failed (exit {error.returncode}); its reason is above")
    except OSError as error:
        sys.exit(f"setup: {error}")


if __name__ == "__main__":
    main()
