"""Friend-played views under random schedules of plays, friendships, faults and crashes, against plain sets.

The views, cold pages and fan-out are the real ones, the Redis too. I1 and I2 are checked after every write, I3 at the
end; `view_schedule.py` says how.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from random import Random, SystemRandom

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signals.redis import SharedRedis
from tests.storm.view_mutants import MUTANTS, PULL_MUTANTS
from tests.storm.view_schedule import OPERATIONS, Operation, Schedule, WrongCountError, random_operations

BUDGET = os.environ.get("HEADCOUNT_STORM", "")
STORM_SCHEDULES = {"": 2_000, "long": 2_000, "short": 150}.get(BUDGET) or int(BUDGET)
#: Schedules within which a mutant has to be found; most are within the first thirty.
MUTANT_SCHEDULES = {"": 2_000, "long": 2_000, "short": 100}.get(BUDGET) or int(BUDGET)
#: Rules whose absence shows soon enough for every test run.
QUICK_MUTANTS = [
    "apply checks that the entry is not counted yet",
    "build hands dirty marks back",
    "catch up after an old version too",
    "edge ignores old versions",
]
#: Rules whose absence shows so seldom that a short storm may miss it; the views' own tests show each directly.
RARE_MUTANTS = ["a repeated claim clears nothing", "edge refuses another token"]


@pytest.fixture(autouse=True)
async def _log_is_quiet() -> AsyncIterator[None]:
    with structlog.testing.capture_logs():
        yield


async def run_schedule(redis: SharedRedis, seed: int, **options: object) -> Schedule:
    await redis.call("FLUSHALL")
    random = Random(seed)
    schedule = Schedule(redis, random, **options)  # type: ignore[arg-type]  # as Schedule takes them
    await schedule.run(random_operations(random, 34))
    return schedule


@settings(
    max_examples=60, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    operations=st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 4), st.integers(0, 31)), min_size=15, max_size=45
    ),
    seed=st.integers(0, 2**32 - 1),
)
async def test_views_match_plain_sets_whatever_happens_in_whatever_order(
    shared_redis: SharedRedis, operations: list[Operation], seed: int
) -> None:
    await shared_redis.call("FLUSHALL")
    await Schedule(shared_redis, Random(seed)).run(operations)


async def test_schedules_meet_every_outcome_and_compare_views_that_lived_through_them(
    shared_redis: SharedRedis,
) -> None:
    outcomes: Counter[str] = Counter()
    crossings: Counter[str] = Counter()
    compared = 0
    for seed in range(40):
        schedule = await run_schedule(shared_redis, seed)
        outcomes += schedule.outcomes
        crossings += schedule.graph.crossings
        compared += schedule.residents_compared
    assert compared > 80
    assert crossings["pull"] > 40
    assert crossings["push"] > 10
    expected = {
        *(f"apply {name}" for name in ("APPLIED", "DUPLICATE", "NOT_A_FRIEND", "NOT_RESIDENT", "GAP", "BEING_BUILT")),
        *(f"edge {name}" for name in ("APPLIED", "OLD_VERSION", "BEING_BUILT", "STALE_TOKEN")),
        *(f"catch_up {name}" for name in ("APPLIED", "DUPLICATE", "BEING_BUILT")),
        *(f"build {name}" for name in ("BUILT", "DIRTY", "REFUSED")),
    }
    assert expected - outcomes.keys() == set()


@pytest.mark.parametrize("rule", QUICK_MUTANTS)
async def test_a_rule_left_out_is_noticed(shared_redis: SharedRedis, rule: str) -> None:
    assert await _noticed(shared_redis, 100, make_views=MUTANTS[rule])


@pytest.mark.parametrize("rule", PULL_MUTANTS)
async def test_a_rule_of_the_pull_side_left_out_is_noticed(shared_redis: SharedRedis, rule: str) -> None:
    assert await _noticed(shared_redis, 300, **PULL_MUTANTS[rule])


@pytest.mark.storm
@pytest.mark.parametrize("rule", sorted(MUTANTS.keys() - set(QUICK_MUTANTS)))
async def test_any_rule_left_out_is_noticed_in_time(shared_redis: SharedRedis, rule: str) -> None:
    noticed = await _noticed(shared_redis, MUTANT_SCHEDULES, make_views=MUTANTS[rule])
    assert noticed or (BUDGET == "short" and rule in RARE_MUTANTS)


@pytest.mark.storm
async def test_views_match_plain_sets_in_a_long_storm(shared_redis: SharedRedis) -> None:
    system = SystemRandom()
    for _ in range(STORM_SCHEDULES):
        seed = system.randrange(2**32)
        try:
            await run_schedule(shared_redis, seed)
        except WrongCountError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


async def _noticed(redis: SharedRedis, schedules: int, **options: object) -> bool:
    for seed in range(schedules):
        try:
            await run_schedule(redis, seed, **options)
        except WrongCountError:
            return True
    return False
