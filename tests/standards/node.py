"""npm's packages, run by Node against a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ops.standards import FOLDER, node
from tests.conftest import skip_or_fail


class Run:
    """A script that runs, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def hear(self) -> dict[str, Any]:
        """The next line it says; empty at its end."""
        assert self._process.stdout is not None
        async with asyncio.timeout(20):
            line = await self._process.stdout.readline()
        heard: dict[str, Any] = json.loads(line) if line else {}
        return heard

    async def rest(self) -> list[dict[str, Any]]:
        """All that it says from here on, once it has ended well."""
        heard = []
        while said := await self.hear():
            heard.append(said)
        async with asyncio.timeout(20):
            assert await self._process.wait() == 0
        return heard


@asynccontextmanager
async def script(name: str, argument: str) -> AsyncIterator[Run]:
    """Run a script of this folder; it is stopped at the end of the context."""
    program = node()
    if program is None:
        skip_or_fail("npm's packages of tests/standards, or Node to run them, are not here: `make test` brings them")
    process = await asyncio.create_subprocess_exec(
        program, name, argument, cwd=FOLDER, stdout=asyncio.subprocess.PIPE, limit=1 << 20
    )
    try:
        yield Run(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
