from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from ops.bundle import DIST
from ops.stamp import ROOT
from tests.conftest import skip_or_fail

ROOMS = ("events", "graph", "loaders", "resolvers", "schema", "server", "signals", "workers")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(ROOT)], check=True, capture_output=True, timeout=100)
    (path,) = folder.glob("headcount-*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_carries_every_module_script_and_migration(wheel: zipfile.ZipFile) -> None:
    carried = set(wheel.namelist())
    for room in ROOMS:
        wanted = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / room).rglob("*")
            if path.suffix in {".py", ".lua", ".sql", ".cypher", ".json", ".txt"}
        }
        assert wanted
        assert wanted <= carried
    assert {"app.py", "cli.py", "settings.py"} <= carried
    assert any(name.endswith(".lua") for name in carried)
    assert any(name.endswith(".sql") for name in carried)


def test_the_wheel_carries_no_tests_tools_or_caches(wheel: zipfile.ZipFile) -> None:
    for name in wheel.namelist():
        assert name.split("/")[0] not in {"tests", "ops", "bench", "docs", ".venv"}, name
        assert "node_modules" not in name
        assert not name.endswith((".pyc", ".tsx"))


def test_the_wheel_carries_the_web_bundle(wheel: zipfile.ZipFile) -> None:
    if not (DIST / "graphiql.html").is_file():
        skip_or_fail("the web bundle is not built (make setup)")
    wanted = {path.relative_to(ROOT).as_posix() for path in DIST.rglob("*") if path.is_file()}
    assert "web/dist/graphiql.html" in wanted
    assert wanted <= set(wheel.namelist())


def test_the_console_script_is_named(wheel: zipfile.ZipFile) -> None:
    (entry,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "headcount = cli:main" in wheel.read(entry).decode()
