"""The image: everything that the wheel needs goes in, locked, and nothing runs as root."""

from __future__ import annotations

import re
import tomllib

from ops.stamp import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "compose.yaml").read_text()


def test_the_build_sees_all_that_the_wheel_holds_and_no_more() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    rooms = {path.split("/")[0] for path in wheel["only-include"]}
    seen = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    locks = {"pyproject.toml", "requirements.txt", "requirements-dev.txt", "README.md", "LICENSE"}
    assert seen == rooms | locks
    assert "web/dist" in wheel["only-include"]
    assert "COPY --from=web /src/web/dist web/dist" in DOCKERFILE


def test_all_that_is_installed_is_locked() -> None:
    installs = re.findall(r"(?:pip install|npm (?:ci|install))[^&\n]*", DOCKERFILE)
    assert installs
    for command in installs:
        assert command.startswith("npm ci") or "--require-hashes" in command or "--no-deps /tmp/wheel/" in command


def test_the_last_stage_runs_as_nobody_in_particular() -> None:
    last = DOCKERFILE.split("\nFROM ")[-1]
    assert re.findall(r"^USER (\S+)", last, re.MULTILINE) == ["headcount"]
    assert "requirements-dev" not in last


def test_compose_holds_no_secret_and_pins_what_it_runs() -> None:
    for name in ("JWT_SECRET", "NEO4J_PASSWORD", "NEO4J_AUTH"):
        for value in re.findall(rf"^ +\w*{name}: (.*)$", COMPOSE, re.MULTILINE):
            assert re.search(r"\$\{HEADCOUNT_(JWT_SECRET|NEO4J_PASSWORD):\?[^}]+\}", value), value
    assert COMPOSE.count("${HEADCOUNT_NEO4J_PASSWORD:?") == 2
    images = re.findall(r"image: (\S+)", COMPOSE)
    assert sorted(images) == ["headcount", "neo4j:5.26-community", "redis:7.4-alpine"]
