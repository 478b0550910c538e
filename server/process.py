"""A program that runs until it is told to stop, and what lives as long as it does."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import click
import uvloop
from starlette.types import ASGIApp

from server.serving import listen, serve_beside
from server.tokens import Tokens
from settings import Settings

DEV_USER_ID = 1
DEV_TOKEN_SECONDS = 86_400


class StartError(Exception):
    """The program cannot start, or cannot go on; the text is one line for the terminal."""


def run(program: Coroutine[object, object, int]) -> int:
    """Run to the end; returns the exit code.

    SIGINT and SIGTERM during the start end it in order too: what it started is stopped.
    """

    async def stoppable() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  # for mypy: this runs in one

        def stop(number: int) -> None:
            loop.remove_signal_handler(number)  # the second one ends the program where it stands
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)  # until the started program sets its own
        return await program

    try:
        return uvloop.run(stoppable())
    except asyncio.CancelledError:
        return 0


@asynccontextmanager
async def leaving_when_replaced(replaced: asyncio.Event) -> AsyncIterator[None]:
    """Stop this process, as SIGTERM would, when another truth takes the place of the one it opened.

    All that it holds in memory is of the truth that is gone. Started again, it empties what is derived.

    Raises:
        StartError: that happened; one line.
    """

    async def leave() -> None:
        await replaced.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    leaving = asyncio.create_task(leave(), name="leaving-when-replaced")
    try:
        yield
    finally:
        leaving.cancel()
    if replaced.is_set():
        raise StartError("another truth stands where this program opened one (a restore?): start it again")


@asynccontextmanager
async def metrics_port(app: ASGIApp, settings: Settings, number: int = 0) -> AsyncIterator[None]:
    """Serve the figures of this process on a port of their own, where one is set.

    Args:
        app: answers `/metrics` (`server.site.metrics_site`).
        settings: which port.
        number: 0 for the first process; web processes beside it (1, 2 …) take the ports that follow.
    """
    if settings.metrics_port is None:
        yield
        return
    async with serve_beside(app, listen(settings.metrics_host, settings.metrics_port + number)):
        yield


def freeze_garbage() -> None:
    """Keep what a start made out of every collection, and collect less often: a quarter less CPU a page."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def greet(sock: socket.socket, dev_tokens: Tokens | None) -> None:
    """Tell the person at the terminal where the server is.

    Args:
        sock: where it listens.
        dev_tokens: signs a token to try it with; None outside development.
    """
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"Headcount listens on http://{shown}:{port}")
    click.echo(f"  GraphiQL  http://{shown}:{port}/graphql")
    if dev_tokens is not None and dev_tokens.can_sign:
        click.echo(f"  A token   {dev_tokens.sign(DEV_USER_ID, (), DEV_TOKEN_SECONDS)}")
        click.echo(f"            (user {DEV_USER_ID}, for a day; `{_program()} token USER` prints more)")


def _program() -> str:
    """What a person types to call this program: its name, or in a checkout its path below this folder."""
    called = sys.argv[0]
    return called if shutil.which("headcount") is None and Path(called).name == "headcount" else "headcount"
