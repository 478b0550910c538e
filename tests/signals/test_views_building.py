"""How friend-played views come and go: claimed, built, read, evicted."""

from __future__ import annotations

import asyncio
import time

import pytest

from signals.redis import SharedRedis
from signals.shards import shard_of
from signals.view import Row
from signals.views import BuildStatus, FriendViews, Update
from tests.signals.built_views import FRIEND, LAST_NUMBER, OFF, OTHER, PULL, PUSH, VIEWER, build


@pytest.fixture
def views(shared_redis: SharedRedis) -> FriendViews:
    return FriendViews(shared_redis)


class TestClaim:
    async def test_one_of_many_becomes_the_builder(self, views: FriendViews) -> None:
        tokens = await asyncio.gather(*[views.claim(VIEWER, f"n{i}") for i in range(20)])
        assert len([token for token in tokens if token is not None]) == 1

    async def test_the_same_nonce_again_answers_the_same_and_keeps_the_marks(self, views: FriendViews) -> None:
        token = await views.claim(VIEWER, "a")
        await views.apply([Update(VIEWER, FRIEND, 1, 1)])
        assert await views.claim(VIEWER, "a") == token
        view = await views.view(VIEWER)
        assert view is not None
        assert view.dirty == {FRIEND}

    async def test_a_ready_view_is_not_claimed(self, views: FriendViews) -> None:
        await build(views, {})
        assert await views.claim(VIEWER, "b") is None

    async def test_a_dead_build_is_taken_over_and_the_dead_builder_refused(self, shared_redis: SharedRedis) -> None:
        views, later = FriendViews(shared_redis), FriendViews(shared_redis, dead_build_seconds=0)
        dead = await views.claim(VIEWER, "a")
        assert dead is not None
        assert await views.claim(VIEWER, "b") is None
        token = await later.claim(VIEWER, "b")
        assert token is not None
        assert (await views.build(VIEWER, dead, "n", {FRIEND: (1, PUSH, 1)}, {1: 1})).status is BuildStatus.REFUSED
        assert (await views.build(VIEWER, token, "n", {}, {})).status is BuildStatus.BUILT
        assert await views.counts(VIEWER) == {}

    async def test_a_build_from_the_future_is_taken_over(self, views: FriendViews, shared_redis: SharedRedis) -> None:
        await shared_redis.call("SET", f"st:{{{shard_of(VIEWER)}}}{VIEWER}", f"B:a:{int(time.time()) + 3600}:0")
        assert await views.claim(VIEWER, "b") is not None

    async def test_a_claim_repeated_after_an_eviction_revives_no_build(self, views: FriendViews) -> None:
        token = await views.claim(VIEWER, "a")
        assert token is not None
        await views.evict([VIEWER])
        assert await views.claim(VIEWER, "a") != token
        assert (await views.build(VIEWER, token, "n", {}, {})).status is BuildStatus.REFUSED


class TestBuild:
    async def test_without_a_claim_it_is_refused(self, views: FriendViews) -> None:
        assert (await views.build(VIEWER, "B:a:1:1", "n", {}, {})).status is BuildStatus.REFUSED
        assert await views.view(VIEWER) is None

    async def test_it_writes_edges_that_are_on(self, views: FriendViews) -> None:
        token = await views.claim(VIEWER, "a")
        assert token is not None
        edges = {FRIEND: (2**40, PUSH, 2), OTHER: (3, PULL, 1), 5: (9, OFF, 0)}
        await views.build(VIEWER, token, "n", edges, {1: 2, LAST_NUMBER: 1})
        view = await views.view(VIEWER)
        assert view is not None
        assert view.token == "R" + token[1:]
        assert view.rows == {FRIEND: Row(2**40, PUSH, 2), OTHER: Row(3, PULL, 1)}
        assert view.pull_owners == {OTHER}
        assert view.counts == {1: 2, LAST_NUMBER: 1}
        assert await views.resident_count() == 1

    async def test_friends_that_changed_come_back_with_a_new_token(self, views: FriendViews) -> None:
        token = await views.claim(VIEWER, "a")
        assert token is not None
        await views.apply([Update(VIEWER, FRIEND, 1, 1)])
        await views.edge(VIEWER, OTHER, "whatever", 1, OFF)
        result = await views.build(VIEWER, token, "n", {}, {})
        assert result.status is BuildStatus.DIRTY
        assert result.token.startswith("B:n:")
        assert sorted(result.dirty) == [FRIEND, OTHER]
        assert (await views.build(VIEWER, token, "n", {}, {})).status is BuildStatus.REFUSED  # the reply was lost
        assert (
            await views.build(VIEWER, result.token, "m", {FRIEND: (1, PUSH, 1)}, {1: 1})
        ).status is BuildStatus.BUILT
        assert await views.counts(VIEWER) == {1: 1}

    async def test_repeated_after_it_was_done_it_says_so_and_changes_nothing(self, views: FriendViews) -> None:
        token = await views.claim(VIEWER, "a")
        assert token is not None
        await views.build(VIEWER, token, "n", {FRIEND: (1, PUSH, 1)}, {1: 1})
        await views.apply([Update(VIEWER, FRIEND, 2, 2)])
        assert (await views.build(VIEWER, token, "n", {FRIEND: (1, PUSH, 1)}, {1: 1})).status is BuildStatus.BUILT
        assert await views.counts(VIEWER) == {1: 1, 2: 1}

    async def test_a_big_view_is_written_whole(self, views: FriendViews) -> None:
        edges = {2**62 + i: (1, PULL if i % 2 else PUSH, 4) for i in range(20_000)}
        counts = {number: 1 + number % 300 for number in range(1, 40_001)}
        token = await views.claim(VIEWER, "a")
        assert token is not None
        assert (await views.build(VIEWER, token, "n", edges, counts)).status is BuildStatus.BUILT
        view = await views.view(VIEWER)
        assert view is not None
        assert view.counts == counts
        assert {owner: (row.version, row.state, row.cursor) for owner, row in view.rows.items()} == edges
        assert len(view.pull_owners) == 10_000

    async def test_a_version_that_a_double_cannot_hold_is_refused(self, views: FriendViews) -> None:
        with pytest.raises(ValueError, match="version"):
            await views.edge(VIEWER, FRIEND, None, 2**53, PUSH)


class TestLeaving:
    async def test_evict_leaves_no_key_of_a_view_and_no_other_view_touched(
        self, views: FriendViews, shared_redis: SharedRedis
    ) -> None:
        viewers = range(1, 201)
        for viewer in viewers:
            await build(views, {FRIEND: list(range(1, 129))}, state=PULL, viewer=viewer)
        await views.claim(500, "being built")
        await views.apply([Update(500, FRIEND, 1, 1)])
        await views.evict([*range(2, 201), 500, 999])
        assert await views.counts(1) == dict.fromkeys(range(1, 129), 1)
        assert await views.resident_count() == 1
        await views.evict([1])
        assert await shared_redis.call("KEYS", "*") == []

    async def test_the_longest_unread_are_idle_and_reading_keeps_a_view(self, views: FriendViews) -> None:
        for viewer in range(1, 6):
            await build(views, {}, viewer=viewer)
        soon = time.time() + 1000
        assert await views.idle(time.time() - 1000, 10) == []
        assert sorted(await views.idle(soon, 10)) == [1, 2, 3, 4, 5]
        await views.touch([2, 4], soon + 0.5)
        assert sorted(await views.idle(soon, 10)) == [1, 3, 5]
        assert len(await views.idle(soon, 2)) == 2

    async def test_touching_revives_nothing_and_never_goes_back(self, views: FriendViews) -> None:
        await build(views, {}, viewer=1)
        await views.touch([1], 5.0)  # a process whose clock is behind
        assert await views.idle(1000.0, 10) == []
        await views.evict([1])
        await views.touch([1, 2], time.time())
        assert await views.resident_count() == 0

    async def test_a_build_that_died_is_idle_in_the_end(self, views: FriendViews) -> None:
        await views.claim(VIEWER, "died")
        assert await views.idle(time.time() + 10, 10) == [VIEWER]
