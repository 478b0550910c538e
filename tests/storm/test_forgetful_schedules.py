"""Whole processes on a Redis that forgets, under random schedules and directed ones, against plain sets.

The outbox, the relay, the event log, consumers, acknowledgements and markers are the real ones, and each of their
calls is a step at which a process may sleep or die, or a reply may be lost. Between steps Redis goes back to an earlier
moment or loses everything, whole or a node of it; ten minutes pass; another truth takes the place of this one. I1 and
I2 are checked after every write, I3 at the end; `view_schedule.py` says how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from random import Random

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signals.redis import SharedRedis
from tests.storm.directed import Directed
from tests.storm.directed_schedules import DIRECTED
from tests.storm.mutants import MARKER_MUTANTS
from tests.storm.test_view_schedules import STORM_SCHEDULES, STORM_SEED
from tests.storm.view_invariants import WrongCountError
from tests.storm.view_operations import FORGETFUL, FORGETFUL_OPERATIONS, Operation, random_operations
from tests.storm.view_schedule import Schedule
from tests.storm.worker_process import Parts

#: Rules whose absence random schedules show soon as well, and the seed from which that is looked for.
RANDOM_MUTANTS = {
    "the leader looks at markers": 8,
    "a shard that nobody can vouch for is emptied": 29,
}
#: Schedules within which it has to be found.
MUTANT_SCHEDULES = 100


@pytest.fixture(autouse=True)
async def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The log is quiet, and whoever tries again after an outage does so when the schedule lets them."""
    for module in ("workers.fan_out_consumer", "workers.acknowledgements"):
        monkeypatch.setattr(f"{module}.pause_seconds", lambda _failures: 0.0)
    with structlog.testing.capture_logs():
        yield


async def run_schedule(redis: SharedRedis, seed: int, parts: Parts, operations: int = 20) -> Schedule:
    """The schedule of a seed."""
    await redis.call("FLUSHALL")
    random = Random(seed)
    schedule = Schedule(redis, random, parts=parts)
    await schedule.run(random_operations(random, operations, FORGETFUL))
    return schedule


async def run_directed(redis: SharedRedis, rule: str, parts: Parts) -> None:
    """The schedule that shows a rule."""
    world = Directed(redis, parts)
    try:
        await world.begin()
        await DIRECTED[rule](world)
        await world.schedule.end()
    finally:
        await world.schedule.stop()


@pytest.mark.timeout(600)  # on a machine that has other things to do
@settings(
    max_examples=110,  # 150 with the forty below; and 150 of `test_view_schedules.py`
    derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    operations=st.lists(
        st.tuples(st.sampled_from(FORGETFUL_OPERATIONS), st.integers(0, 4), st.integers(0, 31)), min_size=4, max_size=12
    ),
    seed=st.integers(0, 2**32 - 1),
)
async def test_processes_match_plain_sets_whatever_redis_forgets(
    shared_redis: SharedRedis, operations: list[Operation], seed: int
) -> None:
    await shared_redis.call("FLUSHALL")
    await Schedule(shared_redis, Random(seed), parts=Parts(), users=3 + seed % 3).run(operations)


async def test_schedules_meet_what_markers_are_for(shared_redis: SharedRedis) -> None:
    outcomes: Counter[str] = Counter()
    compared = 0
    for seed in range(40):
        schedule = await run_schedule(shared_redis, seed, Parts(), operations=14)
        outcomes += schedule.outcomes
        compared += schedule.residents_compared
    assert compared > 80
    calls = ("append", "stands", "settle", "move", "unacknowledge_after")
    expected = {f"{call} {answer}" for call in calls for answer in (True, False)}
    expected -= {"move False", "unacknowledge_after False"}  # one in twenty, and in directed schedules every time
    assert expected - outcomes.keys() == set()


@pytest.mark.parametrize("rule", DIRECTED)
async def test_the_moment_that_a_rule_is_there_for(shared_redis: SharedRedis, rule: str) -> None:
    await run_directed(shared_redis, rule, Parts())
    await shared_redis.call("FLUSHALL")
    with pytest.raises(WrongCountError):
        await run_directed(shared_redis, rule, MARKER_MUTANTS[rule])


@pytest.mark.parametrize("rule", RANDOM_MUTANTS)
async def test_a_rule_left_out_is_noticed(shared_redis: SharedRedis, rule: str) -> None:
    first = RANDOM_MUTANTS[rule]
    for seed in range(first, first + MUTANT_SCHEDULES):
        try:
            await run_schedule(shared_redis, seed, MARKER_MUTANTS[rule])
        except WrongCountError:
            return
    pytest.fail("not noticed")


@pytest.mark.storm
async def test_processes_match_plain_sets_in_a_long_storm(shared_redis: SharedRedis) -> None:
    random = Random(STORM_SEED)
    print(f"{STORM_SCHEDULES} schedules of processes, HEADCOUNT_STORM_SEED={STORM_SEED}")  # noqa: T201  # shown when it fails
    for _ in range(STORM_SCHEDULES):
        seed = random.randrange(2**32)
        try:
            await run_schedule(shared_redis, seed, Parts())
        except Exception as error:
            print(f"seed {seed}: {error}")  # noqa: T201  # shown when it fails, and at once with -s
            raise AssertionError(f"seed {seed}: {error}") from error
