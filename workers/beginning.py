"""How a process begins: the truth opened, what is derived seen to be of that truth, the catalogue known.

A truth that cannot be used refuses the start. One that is only unreachable does not: the last catalogue is taken from
Redis, so that pages show names, live counts and the friend counts of resident views, and the truth is asked again until
it answers. Whatever would write what is derived waits for both stores to have been seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from graph.catalogue import CatalogueMemory
from graph.social_graph import Game, SocialGraph, TruthUnavailableError, TruthUnreachableError
from signals.catalogue_copy import CatalogueCopy, GameEntry
from signals.markers import ShardMarkers
from workers.markers import Markers
from workers.outage import is_outage, pause_seconds

log = structlog.get_logger(__name__)

#: How long a start waits for Redis before it goes on without it.
REDIS_SECONDS = 2.0
#: How often the truth is asked again at least.
LONGEST_PAUSE_SECONDS = 2.0


class Beginning:
    """Begins, and goes on trying.

    Args:
        graph: the truth.
        markers: say of which truth what is derived is.
        shard_markers: the same, read without the truth.
        catalogue: to be known.
        copy: of the catalogue, kept in Redis.
        on_open: called in order once the truth is open, before anything else is.
    """

    def __init__(
        self,
        graph: SocialGraph,
        markers: Markers,
        shard_markers: ShardMarkers,
        catalogue: CatalogueMemory,
        copy: CatalogueCopy,
        on_open: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        self._graph = graph
        self._markers = markers
        self._shard_markers = shard_markers
        self._catalogue = catalogue
        self._copy = copy
        self._to_prepare = list(on_open)
        self._prepared = False
        self._kept: tuple[str, int] | None = None
        self._ready = asyncio.Event()
        self.truth_is_open = False

    async def start(self) -> None:
        """Try once.

        Raises:
            GraphError: the truth cannot be used; one line.
        """
        try:
            await self._open()
        except TruthUnreachableError as error:
            log.warning("truth_unreachable", reason=str(error))
            await self._restore_catalogue()
            return
        try:
            async with asyncio.timeout(REDIS_SECONDS):
                await self._see_what_is_derived()
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("derived_state_not_seen", reason=repr(error))

    async def run(self) -> None:
        """Go on trying until both stores were seen."""
        failures = 0
        while not self._ready.is_set():
            try:
                if not self._prepared:
                    await self._open()
                    log.info("truth_reached", failures=failures)
                await self._see_what_is_derived()
            except Exception as error:
                if not is_outage(error):
                    raise
                failures += 1
                if not self._catalogue.loaded:
                    await self._restore_catalogue()
                await asyncio.sleep(min(pause_seconds(failures), LONGEST_PAUSE_SECONDS))

    def before(self, job: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """A job that waits until both stores were seen."""

        async def run() -> None:
            await self._ready.wait()
            await job()

        return run

    async def refresh_catalogue(self) -> None:
        """Learn what changed in the catalogue, and keep a copy of it where there is none as new.

        Raises:
            GraphError: what is known stays.
        """
        if not self.truth_is_open:
            raise TruthUnavailableError("the truth was not reached yet")
        await self._catalogue.refresh(self._graph)
        known = (self._catalogue.truth_id, self._catalogue.version)
        if known == self._kept:
            return
        games = [GameEntry(game.id, game.number, game.name, game.image_url) for game in self._catalogue.by_name]
        try:
            async with asyncio.timeout(REDIS_SECONDS):
                await self._copy.keep(*known, games)
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("catalogue_copy_not_kept", reason=repr(error))
        else:
            self._kept = known

    async def _open(self) -> None:
        if not self.truth_is_open:
            await self._graph.open()
            self.truth_is_open = True
        while self._to_prepare:  # the truth may go away in between: what was done is not done again
            await self._to_prepare[0]()
            del self._to_prepare[0]
        await self.refresh_catalogue()
        self._prepared = True

    async def _see_what_is_derived(self) -> None:
        await self._markers.begin()
        self._ready.set()

    async def _restore_catalogue(self) -> None:
        """Take the catalogue from Redis, if what is derived there is of the same truth."""
        try:
            async with asyncio.timeout(REDIS_SECONDS):
                copy = await self._copy.load()
                found = await self._shard_markers.read()
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("catalogue_copy_not_read", reason=repr(error))
            return
        if copy is None or any(marker.truth_id != copy.truth_id for marker in found.values()):
            return
        self._catalogue.restore(copy.truth_id, copy.version, [Game(*game) for game in copy.games])
        log.warning("catalogue_restored_from_copy", games=len(copy.games), version=copy.version)
