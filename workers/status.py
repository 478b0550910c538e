"""What `headcount status` tells: how much there is, how far behind, and who does what."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

import redis.asyncio
from redis.exceptions import RedisError

from events.dead_letters import DeadLetters
from events.redis_streams import EventLog
from graph.data_folder import DataFolder, DataFolderError
from graph.social_graph import GraphTotals
from settings import Settings
from signals.embedded_redis import EmbeddedRedisError
from signals.published_totals import Publication, PublishedTotals
from signals.redis import SharedRedis
from signals.views import FriendViews
from workers.command_stores import RedisUnreachableError, command_graph, command_redis
from workers.recount import LEASE_NAME


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a partition of the event log is behind: events not delivered yet, and delivered but not acknowledged."""

    partition: int
    undelivered: int
    pending: int


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """The live totals that stand: how old, and their sums over all games."""

    age_seconds: float
    sessions: int
    people: int
    games: int


@dataclass(frozen=True, slots=True)
class RedisStatus:
    """What is derived. `live` is None where nothing was counted yet, `recount_leader` where nobody leads."""

    version: str
    used_memory_bytes: int
    resident_views: int
    dead_letters: int
    event_lag: list[PartitionLag]
    live: LiveStatus | None
    recount_leader: str | None


@dataclass(frozen=True, slots=True)
class Status:
    """The whole. One of `redis` and `redis_error` is None."""

    data_folder: str
    held_by: str | None
    truth: GraphTotals
    redis: RedisStatus | None = None
    redis_error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "data_folder": self.data_folder,
            "held_by": self.held_by,
            "truth": self.truth._asdict(),
            "redis": asdict(self.redis) if self.redis is not None else None,
            "redis_error": self.redis_error,
        }

    def as_rows(self) -> list[tuple[str, str]]:
        """For people: what, and how much."""
        truth = self.truth
        rows = [
            ("data folder", self.data_folder),
            ("held by", self.held_by or "nobody"),
            ("users", f"{truth.users:,}"),
            ("games", f"{truth.games:,}"),
            ("friendships", f"{truth.friendships:,}"),
            ("plays", f"{truth.plays:,}"),
            ("outbox", f"{truth.outbox:,}"),
        ]
        if self.redis is None:
            return [*rows, ("Redis", self.redis_error or "not reachable")]
        derived = self.redis
        lag = ", ".join(
            f"{part.partition}: {part.undelivered:,} + {part.pending:,}"
            for part in derived.event_lag
            if part.undelivered or part.pending
        )
        live = "never counted"
        if derived.live is not None:
            live = (
                f"{derived.live.sessions:,} sessions, {derived.live.people:,} people in {derived.live.games:,} games, "
                f"{derived.live.age_seconds:.1f} s ago"
            )
        return [
            *rows,
            ("Redis", f"{derived.version}, {derived.used_memory_bytes / 1e6:,.1f} MB"),
            ("event lag (waiting + in work)", lag or "none"),
            ("dead letters", f"{derived.dead_letters:,}"),
            ("resident views", f"{derived.resident_views:,}"),
            ("live", live),
            ("recount leader", derived.recount_leader or "nobody"),
        ]


async def read_status(settings: Settings) -> Status:
    """The whole, from a running server's stores, or from its own for as long as it takes.

    Raises:
        TruthUnavailableError: the truth cannot be read; one line. Of Redis the status itself says it.
    """
    folder = DataFolder(settings.data_dir)
    async with command_graph(settings, folder, create=False) as graph:
        held_by = folder.holder()
        truth = await graph.totals()
        try:
            async with command_redis(settings, folder, "status") as client:
                return Status(str(folder.path), held_by, truth, redis=await read_redis_status(client))
        except (RedisUnreachableError, EmbeddedRedisError, RedisError, DataFolderError) as error:
            return Status(str(folder.path), held_by, truth, redis_error=str(error))


async def read_redis_status(client: redis.asyncio.Redis) -> RedisStatus:
    """What is derived.

    Raises:
        redis.exceptions.RedisError: it could not be read.
    """
    shared = SharedRedis(client)
    info = await client.info()
    depths = await EventLog(client).depths()
    read = await PublishedTotals(shared).read(Publication())
    live = None
    if read.publication is not None:
        counts = read.counts[0] if read.counts else None
        live = LiveStatus(
            age_seconds=max(0, read.now_ms - read.publication.as_of_ms) / 1000,
            sessions=int(counts[:, 1].sum()) if counts is not None else 0,
            people=int(counts[:, 2].sum()) if counts is not None else 0,
            games=int((counts[:, 1] > 0).sum()) if counts is not None else 0,
        )
    leader = await shared.call("GET", f"lease:{{{LEASE_NAME}}}")
    return RedisStatus(
        version=str(info.get("valkey_version") or info["redis_version"]),
        used_memory_bytes=int(info["used_memory"]),
        resident_views=await FriendViews(shared).resident_count(),
        dead_letters=await DeadLetters(client).count(),
        event_lag=[PartitionLag(number, *depth) for number, depth in enumerate(depths)],
        live=live,
        recount_leader=_process(leader.decode(errors="replace")) if leader is not None else None,
    )


def _process(claim: str) -> str:
    """The process that holds a lease, of what the lease's key holds: "token:host:process:random"."""
    found = re.fullmatch(r"\d+:(.*):(\d+):[0-9a-f]+", claim)
    return f"{found[1]}, process {found[2]}" if found is not None else claim
