"""Make the lock files again: `make lock`.

Hashes and versions only: no registry's address, so that a mirror serves as well as the registry itself.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from ops.environment import pip
from ops.stamp import ROOT

UV = "uv==0.13.9"
# What a file is for, and what it takes of pyproject.toml.
FILES = {
    "requirements.txt": ["pyproject.toml"],
    "requirements-dev.txt": ["pyproject.toml", "--group", "dev"],
    "web/requirements.txt": ["--group", "web"],
}
OPTIONS = ["--universal", "--python-version", "3.11", "--generate-hashes", "--upgrade", "--quiet"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        pip(python, "install", "--quiet", "--only-binary", ":all:", UV)
        for file, source in FILES.items():
            command = [str(python.with_name("uv")), "pip", "compile", *source, *OPTIONS]
            command += ["--custom-compile-command", "make lock", "--no-emit-index-url", "--output-file", file]
            if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
                sys.exit(f"lock: {file} was not made")
            print(f"lock: {file}")


if __name__ == "__main__":
    main()
