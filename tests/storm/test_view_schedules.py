"""Friend-played views under random schedules of plays, friendships, faults and crashes, against plain sets.

The views, cold pages and fan-out are the real ones, the Redis too. I1 and I2 are checked after every write, I3 at the
end; `view_schedule.py` says how.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from random import Random, SystemRandom
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signals.redis import SharedRedis
from tests.storm.mutants import MUTANTS, PULL_MUTANTS
from tests.storm.slow_calls import SLOW_CALLS
from tests.storm.view_invariants import WrongCountError
from tests.storm.view_operations import ON_AND_OFF, OPERATIONS, Operation, random_operations
from tests.storm.view_schedule import Schedule

BUDGET = os.environ.get("HEADCOUNT_STORM", "")
#: With those of `test_forgetful_schedules.py` 10,000 in a long storm.
STORM_SCHEDULES = {"": 5_000, "long": 5_000, "short": 150}.get(BUDGET) or int(BUDGET) // 2
STORM_SEED = int(os.environ.get("HEADCOUNT_STORM_SEED") or SystemRandom().randrange(2**32))
#: Schedules within which a mutant has to be found; most are among the first thirty.
MUTANT_SCHEDULES = 1_000
#: Rules whose absence shows soon enough for every test run, and the seed from which that is looked for.
QUICK_MUTANTS = {
    "apply checks that the entry is not counted yet": 0,
    "build hands dirty marks back": 20,
    "catch up after an old version too": 30,
    "edge ignores old versions": 5,
}
#: Rules that matter only to friendships that change while views come and go.
ON_AND_OFF_MUTANTS = {"edge refuses another token": "edge", "a repeated claim clears nothing": "build"}


@pytest.fixture(autouse=True)
async def _log_is_quiet() -> AsyncIterator[None]:
    with structlog.testing.capture_logs():
        yield


async def run_schedule(
    redis: SharedRedis, seed: int, slow_while_on_and_off: str | None = None, **options: Any
) -> Schedule:
    """The schedule of a seed; one of few pairs who befriend and part while one kind of call is slow, where asked.

    `options` are what `Schedule` makes its parts with.
    """
    await redis.call("FLUSHALL")
    random = Random(seed)
    if slow_while_on_and_off is None:
        schedule, weights = Schedule(redis, random, **options), None
    else:
        schedule = Schedule(redis, random, users=3, slow=slow_while_on_and_off, **options)
        weights = ON_AND_OFF
    await schedule.run(random_operations(random, 34, weights))
    return schedule


@pytest.mark.timeout(600)  # on a machine that has other things to do
@settings(
    max_examples=110,  # 150 with the forty below; and 150 of `test_forgetful_schedules.py`
    derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    operations=st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 4), st.integers(0, 31)), min_size=6, max_size=18
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
    first = QUICK_MUTANTS[rule]
    assert await _noticed(shared_redis, range(first, first + 100), make_views=MUTANTS[rule])


@pytest.mark.parametrize("rule", PULL_MUTANTS)
async def test_a_rule_of_the_pull_side_left_out_is_noticed(shared_redis: SharedRedis, rule: str) -> None:
    assert await _noticed(shared_redis, range(300), **PULL_MUTANTS[rule])


@pytest.mark.storm
@pytest.mark.parametrize("rule", sorted(MUTANTS.keys() - QUICK_MUTANTS.keys()))
async def test_any_rule_left_out_is_noticed_in_time(shared_redis: SharedRedis, rule: str) -> None:
    slow = ON_AND_OFF_MUTANTS.get(rule)
    assert await _noticed(shared_redis, range(MUTANT_SCHEDULES), slow, make_views=MUTANTS[rule])


@pytest.mark.storm
async def test_views_match_plain_sets_in_a_long_storm(shared_redis: SharedRedis) -> None:
    random = Random(STORM_SEED)
    print(f"{STORM_SCHEDULES} schedules of views, HEADCOUNT_STORM_SEED={STORM_SEED}")  # noqa: T201  # shown when it fails
    for _ in range(STORM_SCHEDULES):
        seed, slow = random.randrange(2**32), random.choice([None, None, None, None, *SLOW_CALLS])
        try:
            await run_schedule(shared_redis, seed, slow_while_on_and_off=slow)
        except WrongCountError as error:
            raise AssertionError(f"seed {seed}, slow {slow}: {error}") from error


async def _noticed(redis: SharedRedis, seeds: range, slow_while_on_and_off: str | None = None, **options: Any) -> bool:
    for seed in seeds:
        try:
            await run_schedule(redis, seed, slow_while_on_and_off, **options)
        except WrongCountError:
            return True
    return False
