"""Whom live counts leave out: told by workers and loaded by leaders, in orders that must not matter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from graph.social_graph import TruthUnavailableError
from signals.hidden_users import USERS_A_CALL, HiddenUsers
from signals.live_sessions import LIVE_KEYS
from signals.live_shards import LiveShards
from signals.redis import SharedRedis
from signals.shards import SHARDS, shard_of
from tests.signals.live_mutants import LOSS_MUTANTS, MUTANTS
from tests.signals.live_stage import TTL_SECONDS, LiveStage
from tests.signals.plain_users import PlainUsers
from tests.signals.sleeper import Sleeper
from workers.live_visibility import LiveVisibility

G, H = 7, 8
U = 1
SHARD = shard_of(U)


@pytest.fixture
def hidden(stage: LiveStage) -> HiddenUsers:
    return HiddenUsers(stage.redis)


async def test_hidden_users_are_in_no_count_and_come_back(stage: LiveStage) -> None:
    await stage.live.beat(U, "a", G)
    await stage.live.beat(U, "b", G)
    await stage.live.beat(2, "a", G)
    assert await stage.counts(G) == (3, 2)
    await stage.hide(U)
    assert await stage.counts(G) == (1, 1)
    await stage.live.beat(U, "c", G)
    await stage.live.beat(U, "a", H)
    assert await stage.counts(G) == (1, 1)
    assert await stage.counts(H) == (0, 0)
    await stage.hide(U, False)
    assert await stage.counts(G) == (3, 2)
    assert await stage.counts(H) == (1, 1)
    stage.users.delete(U)
    await stage.visibility.carry([U])
    assert await stage.counts(G) == (1, 1)
    await stage.live.end(U, "c")
    stage.clock.advance(TTL_SECONDS * 1000)
    assert await stage.counts(G) == (0, 0)


async def test_an_older_version_changes_nothing(stage: LiveStage, hidden: HiddenUsers) -> None:
    await stage.live.beat(U, "a", G)
    await stage.recount()
    token = await hidden.token(U)
    assert token is not None
    for version, hides, shown in ((0, True, 0), (7, False, 1), (6, True, 1), (7, True, 1), (8, True, 0), (8, False, 0)):
        assert await hidden.hide(U, token, version, hidden=hides)
        assert (await stage.counts(G))[0] == shown


async def test_a_shard_is_not_counted_before_it_was_told_who_hides(stage: LiveStage) -> None:
    await stage.live.beat(U, "a", G)
    shards = LiveShards(stage.redis, TTL_SECONDS, clock_ms=stage.clock.ms)
    reading = await shards.read()
    assert reading.not_loaded == frozenset(range(SHARDS))
    assert reading.changed == set()
    await stage.visibility.load([SHARD])
    reading = await shards.read()
    assert reading.not_loaded == frozenset(range(SHARDS)) - {SHARD}
    assert reading.changed == {G}


async def test_after_a_loss_who_hides_is_loaded_before_anything_is_published(stage: LiveStage) -> None:
    users = list(range(1, 200))
    for user in users[::2]:
        await stage.hide(user)
    await stage.recount()
    await stage.redis.call("FLUSHALL")
    for user in users:
        await stage.live.beat(user, "s", G)
    assert await stage.leader.lead()
    assert await stage.leader.recount()
    assert await stage.published() == {G: (99, 99)}
    for user in users[::2]:
        await stage.hide(user, False)
    await stage.recount()
    assert await stage.published() == {G: (199, 199)}


async def test_more_hide_in_a_shard_than_one_call_takes(stage: LiveStage) -> None:
    users = [user for user in range(1, 200_000) if shard_of(user) == SHARD][: 2 * USERS_A_CALL + 1]
    for user in users[1:]:
        stage.users.change(user, hidden=True)
    for user in (users[0], users[1], users[USERS_A_CALL], users[-1]):
        await stage.live.beat(user, "s", G)
    assert await stage.counts(G) == (1, 1)


async def test_one_read_of_the_truth_loads_all_shards_and_none_those_that_know(stage: LiveStage) -> None:
    await stage.recount()
    assert stage.users.reads == 1
    await stage.end_the_lease()
    stage.leader = stage.new_leader()
    await stage.recount()
    assert stage.users.reads == 1


async def test_without_the_truth_nothing_is_published_until_it_is_back(
    stage: LiveStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> dict[int, int]:
        raise TruthUnavailableError("away")

    await stage.hide(U)
    await stage.recount()
    await stage.redis.call("DEL", *(key for keys in LIVE_KEYS for key in keys))
    await stage.live.beat(U, "s", G)
    await stage.live.beat(2, "s", G)
    with monkeypatch.context() as patch:
        patch.setattr(stage.users, "invisible_users", away)
        for _ in range(2):
            with pytest.raises(TruthUnavailableError):
                await stage.leader.recount()
            assert await stage.published() == {}
    await stage.recount()
    assert await stage.published() == {G: (1, 1)}


async def test_a_truth_that_was_never_open_keeps_no_leader_from_shards_that_know(stage: LiveStage) -> None:
    await stage.hide(U)
    await stage.live.beat(U, "s", G)
    await stage.live.beat(2, "s", G)
    await stage.recount()
    stage.users.truth_id = ""
    await stage.end_the_lease()
    stage.leader = stage.new_leader()
    await stage.live.beat(3, "s", G)
    await stage.recount()
    assert await stage.published() == {G: (2, 2)}


async def test_of_another_truth_nothing_is_kept(stage: LiveStage) -> None:
    await stage.hide(U)
    for user in (U, 2):
        await stage.live.beat(user, "s", G)
    await stage.recount()
    await stage.end_the_lease()
    stage.users = PlainUsers("restored")
    stage.leader = stage.new_leader()
    await stage.recount()
    assert await stage.published() == {}
    await stage.live.beat(U, "s", G)
    await stage.recount()
    assert await stage.published() == {G: (1, 1)}


async def test_forgotten_shards_are_loaded_anew(stage: LiveStage, hidden: HiddenUsers) -> None:
    await stage.hide(U)
    await stage.live.beat(U, "s", G)
    assert await stage.counts(G) == (0, 0)
    stage.users.change(U, hidden=False)  # and its event was set aside
    await stage.visibility.forget([U])
    assert await hidden.token(U) is None
    assert await stage.counts(G) == (1, 1)


async def sleep_through_a_loss(
    stage: LiveStage, steps: int, make_hidden: Callable[[SharedRedis], HiddenUsers] = HiddenUsers
) -> dict[int, tuple[int, int]]:
    """What is published after a worker read "hidden", slept while the user showed again and Redis forgot that, and told
    what it had read.
    """
    stage.visibility = LiveVisibility(stage.users, make_hidden(stage.redis))
    stage.leader._visibility = stage.visibility
    await stage.live.beat(U, "s", G)
    await stage.recount()
    stage.users.change(U, hidden=True)
    sleeper = Sleeper(stage.redis, stage.users, steps, make_hidden)
    await sleeper.start(sleeper.visibility.carry([U]))
    await stage.hide(U, False)
    await stage.redis.call("FLUSHALL")
    await stage.live.beat(U, "s", G)
    await stage.recount()
    await sleeper.wake()
    assert await stage.counts(G) == (None, None)  # after a loss, for one interval
    return await stage.published()


@pytest.mark.parametrize("steps", [1, 2])
async def test_a_worker_that_slept_through_a_loss_tells_nothing_old(stage: LiveStage, steps: int) -> None:
    assert await sleep_through_a_loss(stage, steps) == {G: (1, 1)}


@pytest.mark.parametrize("rule", LOSS_MUTANTS)
async def test_without_a_rule_of_tokens_it_would(stage: LiveStage, rule: str) -> None:
    assert await sleep_through_a_loss(stage, 1, MUTANTS[rule]) == {}


async def test_a_loader_that_slept_through_a_loss_leaves_nobody_out(stage: LiveStage) -> None:
    """It read that nobody hides; then somebody hid, Redis forgot, and another leader loaded that."""
    await stage.live.beat(U, "s", G)
    sleeper = Sleeper(stage.redis, stage.users, 3)
    await sleeper.start(sleeper.visibility.load([SHARD]))
    stage.users.change(U, hidden=True)
    await stage.redis.call("FLUSHALL")
    await stage.live.beat(U, "s", G)
    await sleeper.wake()
    assert (await LiveShards(stage.redis, TTL_SECONDS, shards=[SHARD]).read()).not_loaded == {SHARD}
    await stage.recount()
    assert await stage.published() == {}


async def test_a_change_while_a_shard_is_being_loaded_stays(stage: LiveStage) -> None:
    for user in (U, 2):
        await stage.live.beat(user, "s", G)
    stage.users.change(2, hidden=True)
    sleeper = Sleeper(stage.redis, stage.users, 3)  # it read that 2 hides and U does not
    await sleeper.start(sleeper.visibility.load())
    await stage.hide(U)
    await stage.hide(2, False)
    await stage.recount()  # a second leader loads, with the same token
    assert await stage.published() == {G: (1, 1)}
    await sleeper.wake()
    await stage.recount()
    assert await stage.published() == {G: (1, 1)}


async def test_what_fails_is_told_again_by_whoever_tries_again(
    stage: LiveStage, hidden: HiddenUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object, **__: object) -> bool:
        raise RedisConnectionError("reply lost")

    stage.users.change(U, hidden=True)
    visibility = LiveVisibility(stage.users, hidden)
    with monkeypatch.context() as patch:
        patch.setattr(hidden, "load", lost)
        with pytest.raises(RedisConnectionError):
            await visibility.load()
    await stage.live.beat(U, "s", G)
    await stage.recount()
    assert await stage.published() == {}
