"""The stores as a command finds them: a running server's, or its own for as long as it runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import redis.asyncio
from redis.exceptions import RedisError

from graph.data_folder import DataFolder, DataFolderLockedError
from graph.social_graph import SocialGraph, TruthUnavailableError
from settings import Settings
from signals.embedded_redis import EmbeddedRedis, socket_url
from signals.redis import connect
from workers.chosen_truth import choose_truth

TIMEOUT_SECONDS = 5.0


class RedisUnreachableError(Exception):
    """The Redis that this command needs does not answer; the text is one line."""


@contextlib.asynccontextmanager
async def command_graph(settings: Settings, folder: DataFolder, *, create: bool) -> AsyncIterator[SocialGraph]:
    """The truth, open; a server may write to it at the same time.

    Args:
        settings: of the command.
        folder: the data folder.
        create: make an empty truth where there is none.

    Raises:
        TruthUnavailableError: there is none, or it cannot be opened; one line.
    """
    if settings.neo4j_uri is None and not create and not folder.truth_path.exists():
        raise TruthUnavailableError(f"there is no truth yet in the data folder {folder.path}")
    graph = choose_truth(settings)
    await graph.open()
    try:
        yield graph
    finally:
        await graph.close()


@contextlib.asynccontextmanager
async def command_redis(settings: Settings, folder: DataFolder, holder: str) -> AsyncIterator[redis.asyncio.Redis]:
    """The Redis of the settings, the running server's, or the embedded one, started for this command alone.

    Args:
        settings: of the command.
        folder: the data folder; locked while a Redis of our own runs in it.
        holder: the command, for whoever finds the folder locked.

    Raises:
        RedisUnreachableError: it does not answer.
        EmbeddedRedisError: it cannot be started.
        DataFolderError: the folder cannot be used.
    """
    async with contextlib.AsyncExitStack() as closing:
        url = settings.redis_url
        if url is None:
            url = await _embedded_url(folder, holder, closing)
        try:
            client = connect(url, client_name=f"headcount-{holder}", timeout_seconds=TIMEOUT_SECONDS)
        except ValueError as error:
            raise RedisUnreachableError(f"HEADCOUNT_REDIS_URL: {error}") from None
        closing.push_async_callback(client.aclose)
        try:
            await client.ping()
        except (RedisError, OSError) as error:
            where = "the Redis of HEADCOUNT_REDIS_URL" if settings.redis_url is not None else "the server's Redis"
            raise RedisUnreachableError(f"{where} does not answer: {error}") from None
        yield client


async def _embedded_url(folder: DataFolder, holder: str, closing: contextlib.AsyncExitStack) -> str:
    try:
        folder.lock(holder)
    except DataFolderLockedError:
        return socket_url(folder.path)
    closing.callback(folder.unlock)
    embedded = EmbeddedRedis(folder.path)
    closing.push_async_callback(embedded.stop)
    await embedded.start()
    return embedded.url
