"""Player bitmaps against plain sets: whatever is played, whoever asks, whatever leaves for want of memory."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph.player_bitmaps import ASKED_TO_RETURN, PlayerBitmaps
from graph.social_graph import GameRow, TruthUnavailableError
from graph.sqlite import SQLiteGraph
from graph.user_positions import FIRST_ROOM, UNSORTED, UserPositions
from tests.waiting import until

IDS = [1, 2, 3, 2**31, 2**32 + 5, 2**40, 2**62 - 1, 2**62, 2**63 - 2, 2**63 - 1]
GAMES = 30


class Logs:
    """Play logs in memory, read as the truth is."""

    def __init__(self) -> None:
        self.logs: dict[int, list[int]] = {}
        self.reads: list[list[int]] = []
        self.failure: Exception | None = None

    async def play_logs(self, user_ids: Collection[int]) -> dict[int, bytes]:
        self.reads.append(list(user_ids))
        if self.failure is not None:
            raise self.failure
        await asyncio.sleep(0)
        return {user: pack(self.logs[user]) for user in user_ids if self.logs.get(user)}

    def play(self, user: int, number: int) -> None:
        log = self.logs.setdefault(user, [])
        if number not in log:
            log.append(number)

    def lengths(self, users: Collection[int]) -> dict[int, int]:
        return {user: len(self.logs.get(user, ())) for user in users}

    def counts(self, users: Collection[int], numbers: Collection[int]) -> list[int]:
        return [sum(number in self.logs.get(user, ()) for user in users) for number in numbers]


def pack(log: list[int]) -> bytes:
    return struct.pack(f"<{len(log)}I", *log)


def made(logs: Logs, **options: int) -> PlayerBitmaps:
    return PlayerBitmaps(logs, **options)  # type: ignore[arg-type]  # of the truth it reads logs alone


@given(st.integers(0, 2**32), st.sampled_from([1_500, 4_000, 20_000, 1 << 20]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_counts_are_those_of_plain_sets(seed: int, max_bytes: int) -> None:
    asyncio.run(_schedule(random.Random(seed), max_bytes))


async def _schedule(choose: random.Random, max_bytes: int) -> None:
    logs = Logs()
    bitmaps = made(logs, max_bytes=max_bytes)
    numbers = [*range(1, GAMES), 2**32 - 1, 70_000]

    async def ask() -> None:
        users = choose.sample(IDS, choose.randint(0, len(IDS)))
        asked = choose.choices(numbers, k=choose.randint(1, 8))
        lengths = logs.lengths(users)
        await bitmaps.catch_up(lengths)
        if bitmaps.behind(lengths) or not bitmaps.cover(asked):
            bitmaps.want(asked)
            return
        # Plays since the lengths were read may be counted or not.
        low = [sum(number in logs.logs.get(user, ())[: lengths[user]] for user in users) for number in asked]
        high = logs.counts(users, asked)
        found = bitmaps.counts(users, asked)
        assert all(a <= b <= c for a, b, c in zip(low, found, high, strict=True)), (low, found, high)

    for _ in range(25):
        for _ in range(choose.randint(0, 12)):
            logs.play(choose.choice(IDS), choose.choice(numbers))
        together = [asyncio.create_task(ask()) for _ in range(choose.randint(1, 4))]
        for _ in range(choose.randint(0, 3)):
            logs.play(choose.choice(IDS), choose.choice(numbers))
            await asyncio.sleep(0)
        await asyncio.gather(*together)
        if choose.random() < 0.05:
            bitmaps.clear()
        assert bitmaps.size_bytes <= max_bytes or bitmaps.users == 0
    await bitmaps.close()

    # And exactly, once nothing moves and everything is covered.
    whole = made(logs)
    await whole.catch_up(logs.lengths(IDS))
    assert whole.counts(IDS, numbers) == logs.counts(IDS, numbers)


async def test_only_what_is_new_is_read() -> None:
    logs = Logs()
    bitmaps = made(logs)
    for user in IDS[:4]:
        logs.play(user, 7)
    await bitmaps.catch_up(logs.lengths(IDS[:4]))
    await bitmaps.catch_up(logs.lengths(IDS[:4]))
    logs.play(IDS[1], 8)
    await bitmaps.catch_up(logs.lengths(IDS[:5]))
    assert logs.reads == [IDS[:4], [IDS[1]]]
    assert bitmaps.counts(IDS[:5], [7, 8, 9]) == [4, 1, 0]
    assert bitmaps.counts([IDS[1], 12345], [7, 8]) == [1, 1]


async def test_games_that_nobody_asks_for_leave_first_and_small_ones_before_large_ones() -> None:
    logs = Logs()
    for user in range(1, 41):
        logs.play(user, 1)
        if user <= 20:
            logs.play(user, 2)
        logs.play(user, 100 + user)
    bitmaps = made(logs, max_bytes=36_000)
    await bitmaps.catch_up(logs.lengths(range(1, 41)))
    assert bitmaps.counts(range(1, 41), [1, 2, 140]) == [40, 20, 1]
    for user in range(1, 41):
        logs.play(user, 200 + user)
        logs.play(user, 300 + user)
        await bitmaps.catch_up(logs.lengths([user]))
    assert bitmaps.size_bytes <= 36_000
    assert bitmaps.cover([1, 2, 140])
    assert not all(bitmaps.cover([200 + user]) for user in range(1, 41))


async def test_a_dropped_game_that_is_asked_for_again_comes_back_whole() -> None:
    logs = Logs()
    for user in range(1, 31):
        logs.play(user, user)
        logs.play(user, 99)
    bitmaps = made(logs)
    await bitmaps.catch_up(logs.lengths(range(1, 31)))
    bitmaps._drop(99)
    logs.play(31, 99)
    await bitmaps.catch_up(logs.lengths(range(1, 32)))
    assert not bitmaps.cover([99])
    for _ in range(ASKED_TO_RETURN - 1):
        bitmaps.want([5, 99])
    assert bitmaps._return is None
    bitmaps.want([99])
    logs.play(40, 99)
    await bitmaps.catch_up(logs.lengths([40]))  # met while the game is on its way back
    await until(lambda: bitmaps.cover([99]))
    assert bitmaps.counts([*range(1, 32), 40], [99, 5]) == [32, 1]


async def test_a_game_whose_return_fails_is_still_gone() -> None:
    logs = Logs()
    logs.play(1, 5)
    bitmaps = made(logs)
    await bitmaps.catch_up(logs.lengths([1]))
    bitmaps._drop(5)
    logs.failure = TruthUnavailableError("away")
    for _ in range(ASKED_TO_RETURN):
        bitmaps.want([5])
    returning = bitmaps._return
    assert returning is not None
    await returning
    assert not bitmaps.cover([5])
    logs.failure = None
    bitmaps.want([5])
    await until(lambda: bitmaps.cover([5]))
    assert bitmaps.counts([1], [5]) == [1]


async def test_too_many_users_for_the_memory_are_forgotten() -> None:
    logs = Logs()
    bitmaps = made(logs, max_bytes=50_000)
    for start in range(1, 3_000, 100):
        for user in range(start, start + 100):
            logs.play(user, user % 3)
        await bitmaps.catch_up(logs.lengths(range(start, start + 100)))
        assert bitmaps.size_bytes <= 50_000
    assert bitmaps.users < 2_000


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[SQLiteGraph]:
    graph = SQLiteGraph(tmp_path / "truth.sqlite")
    await graph.open()
    yield graph
    await graph.close()


async def test_over_the_truth(graph: SQLiteGraph) -> None:
    await graph.save_games([GameRow(game, None) for game in range(1, 6)])
    for user, game in ((2, 1), (3, 1), (4, 1), (2, 3), (3, 5)):
        await graph.record_play(user, game)
    for friend in (2, 3, 5):
        await graph.set_friendship(1, friend, True)
    bitmaps = PlayerBitmaps(graph)
    lengths = await graph.seen_owners(1)
    assert lengths == {2: 2, 3: 2, 5: 0}
    await bitmaps.catch_up(lengths)
    assert bitmaps.counts(list(lengths), [1, 2, 3, 5]) == [2, 0, 1, 1]
    await graph.set_activity_hidden(3, True)
    await graph.record_play(5, 1)
    lengths = await graph.seen_owners(1)
    await bitmaps.catch_up(lengths)
    assert bitmaps.counts(list(lengths), [1, 2, 3, 5]) == [2, 0, 1, 0]


def test_positions_stay_when_users_are_sorted_in() -> None:
    choose = random.Random(2)
    positions = UserPositions()
    expected: dict[int, int] = {}
    while len(expected) < UNSORTED + 3 * FIRST_ROOM:
        ids = [choose.randint(1, 2**63 - 1) for _ in range(300)] + choose.sample(sorted(expected), len(expected) // 20)
        found, _ = positions.meet(ids)
        for user, position in zip(ids, found.tolist(), strict=True):
            assert expected.setdefault(user, position) == position
    assert sorted(expected.values()) == list(range(len(positions)))
    ids = list(expected)
    assert positions.known([*ids[:50], 5]).tolist() == [expected[user] for user in ids[:50]]
    assert [expected[user] for user in positions.ids()] == list(range(len(expected)))
    positions.advance(np.array([0, 1], dtype="u4"), np.array([4, 2], dtype="u4"))
    positions.advance(np.array([0], dtype="u4"), np.array([3], dtype="u4"))
    first, second = positions.ids()[:2]
    assert positions.behind({first: 4, second: 3, 5: 0, 6: 1}) == [second, 6]
