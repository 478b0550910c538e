"""A real server, a real Chromium, and a page that may talk to that server only."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, sync_playwright

from tests.conftest import skip_or_fail

ROOT = Path(__file__).parents[2]
SCREENSHOTS = Path(__file__).parent / "screenshots"
START_SECONDS = 60
# Root needs --no-sandbox; the rest keeps the browser from calling anybody.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@dataclass
class Served:
    """A server under test."""

    origin: str
    data_dir: Path

    def token(self, user: int) -> str:
        """A token from the command line."""
        command = [sys.executable, "-m", "cli", "token", str(user)]
        return subprocess.run(
            command, cwd=ROOT, env=environment(self.data_dir), check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()


def environment(data_dir: Path) -> dict[str, str]:
    """The environment of a server: a data folder, and no other setting from outside."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADCOUNT_")}
    return kept | {"HEADCOUNT_DATA_DIR": str(data_dir)}


@contextmanager
def serving(*options: str) -> Iterator[Served]:
    """Run `headcount serve` on a free port with a data folder of its own, until the block ends."""
    if not (ROOT / "web" / "dist" / "graphiql.html").is_file():
        skip_or_fail("the web bundle is not built (make setup)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="hc-"))
    log = folder / "log"
    command = [str(Path(sys.executable).with_name("headcount")), "serve", "--port", str(port), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder / "data"), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _await_ready(process, f"http://127.0.0.1:{port}/readyz", log)
            yield Served(f"http://127.0.0.1:{port}", folder / "data")
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                pytest.fail(f"the server did not stop within 30 s:\n{log.read_text()[-2000:]}", pytrace=False)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _await_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310  # an http address of our own
                return
        except (urllib.error.URLError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the server is not ready:\n{log.read_text()[-2000:]}", pytrace=False)
            time.sleep(0.1)


@pytest.fixture(scope="module")
def demo() -> Iterator[Served]:
    """A server of the demo world, which implies --dev."""
    with serving("--demo") as served:
        yield served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, headless. For one module: while Playwright is up, no asynchronous test can run here."""
    found = os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        skip_or_fail("there is no Chromium on PATH, nor in CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, headless=True, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Witness:
    """What a page did that it should not."""

    origin: str
    strangers: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def judge_route(self, route: Route) -> None:
        """Let a request to the server through and no other."""
        if self._own(route.request.url):
            route.continue_()
        else:
            self.strangers.append(route.request.url)
            route.abort()

    def judge_socket(self, address: str) -> None:
        """Note a WebSocket to somebody else."""
        if not self._own(address):
            self.strangers.append(address)

    def judge_console(self, message: ConsoleMessage) -> None:
        """Note an error that the page printed."""
        if message.type == "error":
            self.errors.append(message.text)

    def _own(self, address: str) -> bool:
        parts = urlsplit(address)
        return parts.scheme in {"data", "blob"} or parts.netloc == urlsplit(self.origin).netloc


@contextmanager
def opened(browser: Browser, served: Served) -> Iterator[Page]:
    """An empty browser profile's page; whatever it asked of others, or printed as an error, fails at the end."""
    witness = Witness(served.origin)
    context = browser.new_context(viewport={"width": 1400, "height": 860}, service_workers="block")
    context.set_default_timeout(30_000)
    context.route("**/*", witness.judge_route)
    page = context.new_page()
    page.on("websocket", lambda opened_socket: witness.judge_socket(opened_socket.url))
    page.on("console", witness.judge_console)
    page.on("pageerror", lambda error: witness.errors.append(str(error)))
    try:
        yield page
    finally:
        context.close()
    assert witness.strangers == []
    assert witness.errors == []


@pytest.fixture
def page(chromium: Browser, demo: Served) -> Iterator[Page]:
    """A fresh visitor's page, closed to everything but the demo server."""
    with opened(chromium, demo) as fresh:
        yield fresh
