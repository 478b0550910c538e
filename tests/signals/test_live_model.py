"""Live counts under random schedules of every fault equal a plain dictionary's at every recount."""

from __future__ import annotations

import os

import pytest

from signals.redis import SharedRedis
from tests.signals.live_mutants import LOSS_MUTANTS, MUTANTS, PLAYER_MUTANTS
from tests.signals.live_schedule import STEPS, LiveSchedule

STORM = {"short": 300, "long": 10_000}[os.environ.get("HEADCOUNT_STORM", "short")]

#: Schedules within which a rule left out has to be noticed.
MUTANT_SCHEDULES = 60


async def play(redis: SharedRedis, seeds: range, steps: int = STEPS) -> int:
    recounts = 0
    for seed in seeds:
        schedule = LiveSchedule(redis, seed, steps=steps)
        try:
            await schedule.run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        recounts += schedule.recounts
    return recounts


@pytest.mark.parametrize("part", range(4))
async def test_every_recount_equals_a_plain_dictionary(shared_redis: SharedRedis, part: int) -> None:
    seeds = range(part * 75, part * 75 + 75)
    assert await play(shared_redis, seeds, steps=12) > 450


@pytest.mark.parametrize("rule", [rule for rule in MUTANTS if rule not in LOSS_MUTANTS])
async def test_a_rule_of_visibility_left_out_is_noticed(shared_redis: SharedRedis, rule: str) -> None:
    for seed in range(MUTANT_SCHEDULES):
        try:
            await LiveSchedule(shared_redis, seed, MUTANTS[rule], visibility_faults=3.0).run()
        except AssertionError:
            return
    raise AssertionError(f"not noticed in {MUTANT_SCHEDULES} schedules")


@pytest.mark.parametrize("rule", PLAYER_MUTANTS)
async def test_a_rule_of_players_left_out_is_noticed(shared_redis: SharedRedis, rule: str) -> None:
    mutant = PLAYER_MUTANTS[rule]
    for seed in range(MUTANT_SCHEDULES):
        try:
            await LiveSchedule(shared_redis, seed, mutants={mutant.name: mutant}).run()
        except AssertionError:
            return
    raise AssertionError(f"not noticed in {MUTANT_SCHEDULES} schedules")


@pytest.mark.storm
@pytest.mark.timeout(0)
async def test_every_recount_equals_a_plain_dictionary_for_long(shared_redis: SharedRedis) -> None:
    await play(shared_redis, range(1000, 1000 + STORM))
