"""A server that was killed (SIGKILL): what it answered is kept, and it starts again where it was."""

from __future__ import annotations

import signal

import httpx
import pytest

from tests.cli.commands import Headcount, served


@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["alone", "with web processes"])
def test_a_killed_server_starts_again_on_its_port(headcount: Headcount, options: list[str]) -> None:
    with served(headcount, *options) as killed:
        port = httpx.URL(killed.address).port or 0
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait()
        # Its embedded Redis is left behind; its web processes leave within a few seconds.
        with served(headcount, *options, port=port) as again:
            assert httpx.get(f"{again.address}/readyz", timeout=10).json()["status"] == "ready"
