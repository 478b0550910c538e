"""Everything at once: clients over HTTP, while the web process, the worker and every store are killed again and again.

The people are those of Last.fm. HEADCOUNT_STORM_SEED repeats who is struck when, and what is asked; what the machine
makes of it differs.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from signals.redis import SharedRedis, connect
from tests.conftest import skip_or_fail
from tests.neo4j.server import CannotStartError, running
from tests.storm.api_storm import Storm
from tests.storm.api_storm_comparison import Comparison
from tests.storm.api_storm_people import StormPeople
from tests.storm.api_storm_processes import Process
from tests.storm.api_storm_truths import Neo4jStormTruth, SQLiteStormTruth, StormTruth, typed_settings
from workers.chosen_truth import choose_truth

SHORT = os.environ.get("HEADCOUNT_STORM") == "short"
STORM_SECONDS = 15.0 if SHORT else 120.0
#: How often everything is struck at least, also where the machine is slow.
ROUNDS = 1 if SHORT else 4
#: Viewers who have a view before the storm begins; browsing makes more.
VIEWERS = 400 if SHORT else 1_892
RECONCILE_SECONDS = 300.0


@pytest.fixture
def folder() -> Any:
    """A folder whose name is short enough for a Unix socket."""
    folder = Path(tempfile.mkdtemp(prefix="hc-storm-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "neo4j"])
def truth(request: pytest.FixtureRequest, folder: Path) -> Any:
    """Where the truth is."""
    if request.param == "sqlite":
        yield SQLiteStormTruth(folder / "data")
        return
    try:
        with running() as server:
            yield Neo4jStormTruth(server)
    except CannotStartError as error:
        skip_or_fail(str(error))


@pytest.fixture
async def storm(folder: Path, truth: StormTruth, lastfm: Path) -> AsyncIterator[Storm]:
    """Not yet begun; every process ends with it."""
    seed = int(os.environ.get("HEADCOUNT_STORM_SEED") or random.SystemRandom().randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  # shown when it fails
    storm = Storm(folder, truth, StormPeople(lastfm), seed)
    yield storm
    await storm.close()


def faults_in(process: Process) -> list[str]:
    """What a process's log says of views that the audit had to mend, and of faults of ours."""
    words = ("view_drifted", "internal error", "job_failed", "dead_letter")
    return [
        line for line in process.log.read_text(errors="replace").splitlines() if any(word in line for word in words)
    ]


@pytest.mark.storm
@pytest.mark.timeout(1_800)
async def test_every_count_is_exact_after_everything_was_killed_in_turn(storm: Storm, lastfm: Path) -> None:
    await storm.begin(lastfm, VIEWERS)
    await storm.rage(STORM_SECONDS, ROUNDS)
    async with AsyncExitStack() as closing:
        closing.callback(lambda: print(json.dumps(storm.told())))  # noqa: T201  # shown when it fails
        graph = choose_truth(typed_settings(storm.folder / "data", storm.truth))
        await graph.open()
        closing.push_async_callback(graph.close)
        redis = SharedRedis(connect(storm.redis.url, client_name="storm", timeout_seconds=10))
        closing.push_async_callback(redis.close)
        comparison = Comparison(storm.people, storm.truth, graph, redis)
        with storm.phase("drain"):
            await comparison.drained()
        numbers = {game.number: game.id for game in (await graph.catalogue()).changed}
        with storm.phase("comparison"):
            await comparison.truth_is_as_answered(numbers)
            compared = await comparison.counts_are_exact(numbers)
        print(compared)  # noqa: T201  # likewise
        assert compared.users == 1_892
        assert compared.views > VIEWERS // 3, "views outlived the storm"
        await storm.pages_are_exact(random.Random(0))
        with storm.phase("reconcile"):
            code, output = await storm.command("reconcile", "--json", seconds=RECONCILE_SECONDS)
    assert code == 0, output
    report = json.loads(output)
    assert report["drift"] == 0
    assert report["users"] >= compared.views
    assert report["in_flight"] == []
    assert faults_in(storm.web) == []
    assert faults_in(storm.worker) == []
    kills = storm.strikes.kills
    assert all(kills[victim.name] >= ROUNDS for victim in storm.victims), kills
