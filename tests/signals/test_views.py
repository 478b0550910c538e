"""Friend-played views: what reading and fan-out are answered, and that counts are what the cursors say."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from redis.exceptions import ResponseError, TryAgainError

from signals.redis import RoundTrips, SharedRedis, round_trips
from signals.shards import shard_of
from signals.view import Row
from signals.views import BuildStatus, FriendViews, Outcome, Page, Update
from tests.signals.built_views import FRIEND, LAST_NUMBER, OFF, OTHER, PULL, PUSH, VIEWER, build, log


@pytest.fixture
def views(shared_redis: SharedRedis) -> FriendViews:
    return FriendViews(shared_redis)


class TestPage:
    async def test_counts_come_in_the_order_asked_unknown_games_are_0(self, views: FriendViews) -> None:
        await build(views, {FRIEND: [1, 65, LAST_NUMBER], OTHER: [65, 64]})
        assert await views.page(VIEWER, [65, 7, 1, 64, LAST_NUMBER, 65]) == Page((2, 0, 1, 1, 1, 2), {})

    async def test_a_page_is_one_round_trip_with_every_key_declared(self, views: FriendViews) -> None:
        await build(views, {FRIEND: [1, 2]})
        await views.page(VIEWER, [1])
        trips = RoundTrips()
        round_trips.set(trips)
        page = await views.page(VIEWER, list(range(1, 101)))
        assert page is not None
        assert page.counts == (1, 1, *[0] * 98)
        assert trips.count == 1

    async def test_pull_cursors_come_with_the_page(self, views: FriendViews) -> None:
        await build(views, {FRIEND: [1, 2], OTHER: [1]}, state=PULL)
        assert await views.page(VIEWER, [1]) == Page((2,), {FRIEND: 2, OTHER: 1})

    async def test_an_empty_page_of_a_ready_view_is_empty(self, views: FriendViews) -> None:
        await build(views, {})
        assert await views.page(VIEWER, []) == Page((), {})

    async def test_absent_and_being_built_are_cold(self, views: FriendViews) -> None:
        assert await views.page(VIEWER, [1]) is None
        await views.claim(VIEWER, "a")
        assert await views.page(VIEWER, [1]) is None
        assert await views.counts(VIEWER) is None

    async def test_a_slot_on_the_move_is_cold(self, views: FriendViews, monkeypatch: pytest.MonkeyPatch) -> None:
        async def half_moved(*_: object) -> None:
            raise TryAgainError("Multiple keys request during rehashing of slot")

        monkeypatch.setattr(SharedRedis, "run", half_moved)
        assert await views.page(VIEWER, [1]) is None

    async def test_a_store_that_fails_is_an_error_not_a_cold_page(
        self, views: FriendViews, shared_redis: SharedRedis
    ) -> None:
        await shared_redis.call("HSET", f"st:{{{shard_of(VIEWER)}}}{VIEWER}", "a", "b")
        with pytest.raises(ResponseError):
            await views.page(VIEWER, [1])


class TestApply:
    async def test_each_outcome(self, views: FriendViews) -> None:
        token = await build(views, {FRIEND: [1, 2], OTHER: [1]})
        await views.edge(VIEWER, OTHER, token, 2, OFF, log(1))
        await views.claim(7, "being built")
        updates = {
            Update(VIEWER, FRIEND, 2, 2): Outcome.DUPLICATE,
            Update(VIEWER, FRIEND, 3, 66): Outcome.APPLIED,
            Update(VIEWER, FRIEND, 5, 9): Outcome.GAP,
            Update(VIEWER, OTHER, 1, 1): Outcome.NOT_A_FRIEND,
            Update(VIEWER, 12, 1, 1): Outcome.NOT_A_FRIEND,
            Update(8, FRIEND, 3, 66): Outcome.NOT_RESIDENT,
            Update(7, FRIEND, 3, 66): Outcome.BEING_BUILT,
        }
        assert await views.apply(list(updates)) == list(updates.values())
        assert await views.counts(VIEWER) == {1: 1, 2: 1, 66: 1}

    async def test_a_pulled_friend_counts_as_well_once(self, views: FriendViews) -> None:
        await build(views, {FRIEND: [1]}, state=PULL)
        assert await views.apply([Update(VIEWER, FRIEND, 2, 2)] * 2) == [Outcome.APPLIED, Outcome.DUPLICATE]
        assert await views.page(VIEWER, [1, 2]) == Page((1, 1), {FRIEND: 2})

    async def test_thousands_of_updates_of_all_shards_keep_their_order(self, views: FriendViews) -> None:
        viewers = range(1, 40)
        for viewer in viewers:
            await build(views, {FRIEND: [], OTHER: []}, viewer=viewer)
        numbers = list(range(1, 101))
        updates = [
            Update(viewer, owner, ordinal, number)
            for ordinal, number in enumerate(numbers, 1)
            for viewer in viewers
            for owner in (FRIEND, OTHER)
        ]
        assert set(await views.apply(updates)) == {Outcome.APPLIED}
        assert set(await views.apply(updates)) == {Outcome.DUPLICATE}
        for viewer in viewers:
            assert await views.counts(viewer) == dict.fromkeys(numbers, 2)

    async def test_nothing_to_apply_asks_nothing(self, views: FriendViews) -> None:
        assert await views.apply([]) == []

    async def test_a_slot_on_the_move_is_tried_again(self, views: FriendViews, monkeypatch: pytest.MonkeyPatch) -> None:
        await build(views, {FRIEND: []})
        run, refusals = SharedRedis.run, [TryAgainError("half moved"), TryAgainError("half moved")]

        async def half_moved(*args: object) -> object:
            if refusals:
                raise refusals.pop()
            return await run(*args)  # type: ignore[arg-type]  # as it came

        monkeypatch.setattr(SharedRedis, "run", half_moved)
        assert await views.apply([Update(VIEWER, FRIEND, 1, 1)]) == [Outcome.APPLIED]


class TestCatchUp:
    async def test_it_applies_what_lies_past_the_cursor(self, views: FriendViews) -> None:
        await build(views, {FRIEND: [1, 2], OTHER: [1]})
        assert await views.catch_up(VIEWER, FRIEND, log(1, 2, 66, LAST_NUMBER)) is Outcome.APPLIED
        assert await views.catch_up(VIEWER, FRIEND, log(1, 2, 66, LAST_NUMBER)) is Outcome.DUPLICATE
        assert await views.counts(VIEWER) == {1: 2, 2: 1, 66: 1, LAST_NUMBER: 1}

    async def test_each_refusal(self, views: FriendViews) -> None:
        assert await views.catch_up(VIEWER, FRIEND, log(1)) is Outcome.NOT_RESIDENT
        token = await build(views, {FRIEND: [1, 2]})
        assert await views.catch_up(VIEWER, FRIEND, log(1)) is Outcome.PAST_LOG_END
        assert await views.catch_up(VIEWER, FRIEND, b"") is Outcome.PAST_LOG_END
        assert await views.catch_up(VIEWER, OTHER, log(1)) is Outcome.NOT_A_FRIEND
        await views.edge(VIEWER, FRIEND, token, 2, OFF, log(1, 2))
        assert await views.catch_up(VIEWER, FRIEND, log(1, 2, 3)) is Outcome.NOT_A_FRIEND
        await views.claim(7, "a")
        assert await views.catch_up(7, FRIEND, log(1)) is Outcome.BEING_BUILT
        view = await views.view(7)
        assert view is not None
        assert view.dirty == {FRIEND}

    async def test_a_long_log_goes_in_parts_from_wherever_the_cursor_stands(
        self, views: FriendViews, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("signals.views.ENTRIES_A_CALL", 3)
        numbers = list(range(1, 12))
        await build(views, {FRIEND: [], OTHER: numbers[:9]})
        whole = log(*numbers)
        assert await views.catch_up(VIEWER, FRIEND, whole) is Outcome.APPLIED
        assert await views.catch_up(VIEWER, OTHER, whole) is Outcome.APPLIED
        for owner in (FRIEND, OTHER):
            assert await views.catch_up(VIEWER, owner, whole) is Outcome.DUPLICATE
            assert await views.catch_up(VIEWER, owner, whole[:-4]) is Outcome.PAST_LOG_END
        assert await views.catch_up(VIEWER, 12, whole) is Outcome.NOT_A_FRIEND
        assert await views.counts(VIEWER) == dict.fromkeys(numbers, 2)
        view = await views.view(VIEWER)
        assert view is not None
        assert {row.cursor for row in view.rows.values()} == {11}

    async def test_what_happens_between_two_parts_is_met_by_the_next(
        self, views: FriendViews, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another worker takes the friend off and on again, or catches up first: counts stay what the cursors say."""
        monkeypatch.setattr("signals.views.ENTRIES_A_CALL", 3)
        numbers = list(range(1, 12))
        whole = log(*numbers)
        token = await build(views, {FRIEND: [], OTHER: [2, 5]})
        run = views._catch_up_part
        calls: list[int] = []

        async def interrupted(viewer: int, owner: int, part: bytes, before: int, length: int) -> object:
            calls.append(before)
            if len(calls) == 3:  # after the look at the end and one part
                view = await views.view(VIEWER)
                assert view is not None
                assert view.rows[FRIEND].cursor == 3
                assert view.counts == {1: 1, 2: 2, 3: 1, 5: 1}
                await views.edge(VIEWER, FRIEND, token, 2, OFF, whole)
                assert await views.counts(VIEWER) == {2: 1, 5: 1}
                await views.edge(VIEWER, FRIEND, token, 3, PUSH)
            if len(calls) == 5:
                assert await views.catch_up(VIEWER, FRIEND, whole[:28]) is Outcome.APPLIED
            return await run(viewer, owner, part, before, length)

        monkeypatch.setattr(views, "_catch_up_part", interrupted)
        assert await views.catch_up(VIEWER, FRIEND, whole) is Outcome.APPLIED
        assert await views.counts(VIEWER) == dict.fromkeys(numbers, 1) | {2: 2, 5: 2}
        await views.edge(VIEWER, FRIEND, token, 4, OFF, whole)
        assert await views.counts(VIEWER) == {2: 1, 5: 1}

    async def test_a_log_of_tens_of_thousands(self, views: FriendViews) -> None:
        numbers = Random(1).sample(range(1, 1_000_000), 40_000)
        token = await build(views, {FRIEND: []})
        assert await views.catch_up(VIEWER, FRIEND, log(*numbers)) is Outcome.APPLIED
        assert await views.counts(VIEWER) == dict.fromkeys(numbers, 1)
        assert await views.edge(VIEWER, FRIEND, token, 2, OFF, log(*numbers)) is Outcome.APPLIED
        assert await views.counts(VIEWER) == {}


class TestEdge:
    async def test_off_takes_back_exactly_what_is_before_the_cursor(self, views: FriendViews) -> None:
        token = await build(views, {FRIEND: [1, 2], OTHER: [2, 3]})
        assert await views.edge(VIEWER, FRIEND, token, 2, OFF, log(1, 2, 3)) is Outcome.APPLIED
        view = await views.view(VIEWER)
        assert view is not None
        assert view.counts == {2: 1, 3: 1}
        assert view.rows[FRIEND] == Row(2, OFF, 0)

    async def test_off_past_the_logs_end_changes_nothing(self, views: FriendViews) -> None:
        token = await build(views, {FRIEND: [1, 2]})
        assert await views.edge(VIEWER, FRIEND, token, 2, OFF, log(1)) is Outcome.PAST_LOG_END
        assert await views.counts(VIEWER) == {1: 1, 2: 1}

    async def test_versions_only_grow_and_an_off_row_remembers_its_own(self, views: FriendViews) -> None:
        token = await build(views, {})
        assert await views.edge(VIEWER, FRIEND, token, 0, OFF) is Outcome.OLD_VERSION
        assert await views.edge(VIEWER, FRIEND, token, 3, OFF) is Outcome.APPLIED
        assert await views.edge(VIEWER, FRIEND, token, 2, PUSH) is Outcome.OLD_VERSION
        assert await views.edge(VIEWER, FRIEND, token, 3, PUSH) is Outcome.OLD_VERSION
        assert await views.edge(VIEWER, FRIEND, token, 4, PUSH) is Outcome.APPLIED
        assert await views.edge(VIEWER, FRIEND, token, 2**32 + 5, OFF) is Outcome.APPLIED
        assert await views.edge(VIEWER, FRIEND, token, 2**32 + 4, PUSH) is Outcome.OLD_VERSION

    async def test_from_push_to_pull_and_back_the_cursor_stays(self, views: FriendViews) -> None:
        token = await build(views, {FRIEND: [1, 2]})
        assert await views.edge(VIEWER, FRIEND, token, 2, PULL) is Outcome.APPLIED
        assert await views.page(VIEWER, [1, 2]) == Page((1, 1), {FRIEND: 2})
        assert await views.edge(VIEWER, FRIEND, token, 3, PUSH) is Outcome.APPLIED
        view = await views.view(VIEWER)
        assert view is not None
        assert view.rows == {FRIEND: Row(3, PUSH, 2)}
        assert view.pull_owners == set()

    async def test_a_pulled_friend_that_goes_off_is_no_pull_owner(self, views: FriendViews) -> None:
        token = await build(views, {FRIEND: [1]}, state=PULL)
        await views.edge(VIEWER, FRIEND, token, 2, OFF, log(1))
        assert await views.page(VIEWER, [1]) == Page((0,), {})

    async def test_off_and_on_again_counts_once(self, views: FriendViews) -> None:
        token = await build(views, {FRIEND: [1, 2], OTHER: [2]})
        await views.edge(VIEWER, FRIEND, token, 2, OFF, log(1, 2))
        await views.edge(VIEWER, FRIEND, token, 3, PUSH)
        assert await views.counts(VIEWER) == {2: 1}
        await views.catch_up(VIEWER, FRIEND, log(1, 2))
        assert await views.counts(VIEWER) == {1: 1, 2: 2}

    async def test_a_token_from_before_the_view_was_built_again_is_refused(self, views: FriendViews) -> None:
        """An "on" that was read before the view left would stay for good: the new view has no row that knows better."""
        old = await build(views, {FRIEND: [1]})
        await views.evict([VIEWER])
        assert await views.edge(VIEWER, FRIEND, old, 5, PUSH) is Outcome.NOT_RESIDENT
        token = await views.claim(VIEWER, "another")
        assert token is not None
        assert await views.edge(VIEWER, FRIEND, old, 5, PUSH) is Outcome.BEING_BUILT
        assert (await views.build(VIEWER, token, "n", {}, {})).status is BuildStatus.DIRTY
        assert await views.edge(VIEWER, FRIEND, None, 5, PUSH) is Outcome.BEING_BUILT
        await views.evict([VIEWER])
        await build(views, {})
        assert await views.edge(VIEWER, FRIEND, old, 5, PUSH) is Outcome.STALE_TOKEN
        assert await views.edge(VIEWER, FRIEND, None, 5, PUSH) is Outcome.STALE_TOKEN


async def test_random_calls_keep_counts_to_what_the_cursors_say(views: FriendViews) -> None:
    """I1 against plain sets: any calls, in any order, old ones again, whatever they answer."""
    random = Random(7)
    logs = {2**62 + i: random.sample(range(1, 200), 30) for i in range(8)}
    token = await build(views, {})
    for step in range(600):
        owner = random.choice(list(logs))
        numbers = logs[owner]
        match random.randrange(4):
            case 0:
                await views.edge(VIEWER, owner, token, random.randrange(1, step + 2), random.choice((1, 2)))
            case 1:
                await views.edge(VIEWER, owner, token, random.randrange(1, step + 2), OFF, log(*numbers))
            case 2:
                await views.catch_up(VIEWER, owner, log(*numbers[: random.randrange(31)]))
            case 3:
                ordinal = random.randrange(1, 31)
                await views.apply([Update(VIEWER, owner, ordinal, numbers[ordinal - 1])])
        if step % 10 == 0:
            view = await views.view(VIEWER)
            assert view is not None
            counted = Counter(n for owner, row in view.rows.items() for n in logs[owner][: row.cursor])
            assert view.counts == counted
            page = await views.page(VIEWER, list(range(1, 200)))
            assert page is not None
            assert list(page.counts) == [counted[number] for number in range(1, 200)]
