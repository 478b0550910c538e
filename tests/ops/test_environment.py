from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from ops import environment


class Checkout:
    """A checkout whose installs are written down and not made."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(environment, "pip", self._pip)
        monkeypatch.setattr("venv.create", self._create)
        root.mkdir()
        (root / "requirements-dev.txt").write_text("one==1\n")
        (root / "pyproject.toml").write_text("[project]\n")
        self.stand_in(root)

    def stand_in(self, root: Path) -> None:
        self.root = root
        self._monkeypatch.setattr(environment, "ROOT", root)
        self._monkeypatch.setattr(environment, "VENV", root / ".venv")
        self._monkeypatch.setattr(environment, "PYTHON", root / ".venv" / "bin" / "python")
        self._monkeypatch.setattr(environment, "LOCK", root / "requirements-dev.txt")

    def set_up(self) -> list[str]:
        self.steps.clear()
        environment.set_up()
        return list(self.steps)

    def _create(self, folder: Path, *, clear: bool, with_pip: bool, symlinks: bool) -> None:
        assert (clear, with_pip, symlinks) == (True, True, True)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "bin").mkdir(parents=True)
        # A script and not a link: without pyvenv.cfg a link would be the interpreter that runs this test.
        (folder / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (folder / "bin" / "python").chmod(0o755)
        self.steps.append("venv")

    def _pip(self, _python: Path, *arguments: str) -> None:
        self.steps.append("packages" if "--require-hashes" in arguments else "headcount")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    return Checkout(tmp_path / "with a space", monkeypatch)


def test_a_second_set_up_does_nothing(checkout: Checkout) -> None:
    assert checkout.set_up() == ["venv", "packages", "headcount"]
    assert checkout.set_up() == []


def test_what_changed_is_done_again_and_nothing_else(checkout: Checkout) -> None:
    checkout.set_up()
    (checkout.root / "requirements-dev.txt").write_text("one==2\n")
    assert checkout.set_up() == ["packages"]
    (checkout.root / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert checkout.set_up() == ["headcount"]


def test_a_moved_checkout_gets_a_new_environment(checkout: Checkout) -> None:
    checkout.set_up()
    checkout.stand_in(checkout.root.rename(checkout.root.with_name("moved")))
    assert checkout.set_up() == ["venv", "packages", "headcount"]


def test_a_broken_environment_is_made_anew(checkout: Checkout) -> None:
    checkout.set_up()
    (checkout.root / ".venv" / "bin" / "python").unlink()
    assert checkout.set_up() == ["venv", "packages", "headcount"]


def test_an_install_that_failed_is_tried_again(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no network")

    with monkeypatch.context() as offline:
        offline.setattr(environment, "pip", refuse)
        with pytest.raises(OSError, match="no network"):
            checkout.set_up()
    assert checkout.set_up() == ["packages", "headcount"]
