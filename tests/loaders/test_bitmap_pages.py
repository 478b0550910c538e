"""The planner: logs or bitmaps by what each is measured to cost, and the same counts from both."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest

from graph.player_bitmaps import PlayerBitmaps
from graph.query_count import QueryCount, query_count
from graph.social_graph import FriendshipRow, GameRow, PlayRow, SeenLog
from graph.sqlite import SQLiteGraph
from graph.visibility import CursorState
from loaders.bitmap_pages import BitmapPages
from loaders.cold_pages import ColdPages
from signals.redis import SharedRedis
from signals.views import FriendViews
from tests.waiting import until

VIEWER = 1
FRIENDS = range(2, 42)
GAMES = 60


class CountedGraph(SQLiteGraph):
    """The real truth; says what was read of it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.seen_logs_read = 0
        self.logs_read: list[int] = []

    async def seen_logs(self, viewer_id: int, owner_ids: Collection[int] | None = None) -> dict[int, SeenLog]:
        self.seen_logs_read += 1
        return await super().seen_logs(viewer_id, owner_ids)

    async def play_logs(self, user_ids: Collection[int]) -> dict[int, bytes]:
        self.logs_read += user_ids
        return await super().play_logs(user_ids)


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[CountedGraph]:
    graph = CountedGraph(tmp_path / "truth.sqlite")
    await graph.open()
    await graph.save_games([GameRow(number, None) for number in range(1, GAMES + 1)])
    await graph.import_rows("friends", [FriendshipRow(VIEWER, friend) for friend in FRIENDS])
    choose = random.Random(6)
    games = range(1, GAMES + 1)
    await graph.import_rows("plays", [PlayRow(user, game) for user in FRIENDS for game in choose.sample(games, 30)])
    yield graph
    await graph.close()


@pytest.fixture
def bitmaps(graph: CountedGraph) -> PlayerBitmaps:
    return PlayerBitmaps(graph)


@pytest.fixture
async def bitmap_pages(graph: CountedGraph, bitmaps: PlayerBitmaps) -> AsyncIterator[BitmapPages]:
    """Every entry of a log is taken to cost a millisecond: bitmaps pay as soon as they have them."""
    pages = BitmapPages(graph, bitmaps, worth_seconds=0.0)
    pages.entry.seconds = 0.001
    yield pages
    await pages.close()


@pytest.fixture
async def cold_pages(
    graph: CountedGraph, shared_redis: SharedRedis, bitmap_pages: BitmapPages
) -> AsyncIterator[ColdPages]:
    pages = ColdPages(graph, FriendViews(shared_redis), bitmap_pages, claim_seconds=60)
    yield pages
    await pages.close()


async def expected(graph: CountedGraph, viewer: int, numbers: Collection[int]) -> list[int]:
    seen = await SQLiteGraph.seen_logs(graph, viewer)
    logs = [set(struct.unpack(f"<{len(owner.log) // 4}I", owner.log)) for owner in seen.values()]
    return [sum(number in log for log in logs) for number in numbers]


async def test_logs_become_bitmaps_when_they_are_read_again(
    graph: CountedGraph, cold_pages: ColdPages, bitmaps: PlayerBitmaps
) -> None:
    numbers = [3, 3, 59, 12]
    counts = await expected(graph, VIEWER, numbers)
    lengths = await graph.seen_owners(VIEWER)
    for page in range(1, 6):
        assert await cold_pages.counts(VIEWER, numbers, claim=False) == counts
        if page == 2:
            await until(lambda: not bitmaps.behind(lengths))
        assert graph.seen_logs_read == min(page, 2)
    assert cold_pages.answered == {"logs": 2, "bitmaps": 3}
    assert graph.logs_read == []
    assert await cold_pages.counts(VIEWER, [GAMES + 1000], claim=False) == [0]


async def test_a_play_and_a_parting_are_counted_at_once(
    graph: CountedGraph, cold_pages: ColdPages, bitmap_pages: BitmapPages, bitmaps: PlayerBitmaps
) -> None:
    await bitmaps.catch_up(await graph.seen_owners(VIEWER))
    graph.logs_read.clear()
    choose = random.Random(1)
    for _ in range(60):
        one = choose.choice([*FRIENDS, 90, 91])
        match choose.randrange(6):
            case 0:
                await graph.set_friendship(VIEWER, one, choose.random() < 0.5)
            case 1:
                await graph.set_activity_hidden(one, choose.random() < 0.5)
            case 2:
                await graph.block(one, VIEWER, choose.random() < 0.5)
            case _:
                await graph.record_play(one, choose.randint(1, GAMES))
        numbers = choose.sample(range(1, GAMES + 1), 10)
        assert await bitmap_pages.counts(VIEWER, numbers) == await expected(graph, VIEWER, numbers)
    assert cold_pages.answered["logs"] == 0
    assert graph.seen_logs_read == 0


async def test_few_friends_are_counted_from_logs_and_asked_for_nothing_more(
    graph: CountedGraph, bitmaps: PlayerBitmaps, shared_redis: SharedRedis
) -> None:
    pages = ColdPages(graph, FriendViews(shared_redis), BitmapPages(graph, bitmaps))
    queries = QueryCount()
    query_count.set(queries)
    for page in range(1, 5):
        await pages.counts(VIEWER, [1, 2], claim=False)
        assert queries.count == page
    assert (pages.answered, bitmaps.users) == ({"logs": 4, "bitmaps": 0}, 0)
    await pages.close()


async def test_the_plan_follows_what_reading_costs(graph: CountedGraph, bitmaps: PlayerBitmaps) -> None:
    pages = BitmapPages(graph, bitmaps, worth_seconds=0.005)
    seen = await graph.seen_logs(VIEWER)
    entries = sum(len(owner.log) for owner in seen.values()) // 4
    for _ in range(30):
        pages.logs_were_read(VIEWER, seen, 0.0002)
    assert pages.entry.seconds == pytest.approx(0.0002 / entries, rel=0.05)
    assert await pages.counts(VIEWER, [1]) is None
    assert bitmaps.users == 0
    for _ in range(30):
        pages.logs_were_read(VIEWER, seen, 0.050)  # a truth for which every entry costs a lot
    lengths = await graph.seen_owners(VIEWER)
    await until(lambda: not bitmaps.behind(lengths))
    assert await pages.counts(VIEWER, [1, 2]) == await expected(graph, VIEWER, [1, 2])
    await pages.close()


async def test_logs_that_the_bitmaps_lack_count_against_them(graph: CountedGraph, bitmaps: PlayerBitmaps) -> None:
    pages = BitmapPages(graph, bitmaps, worth_seconds=0.001)
    seen = await graph.seen_logs(VIEWER)
    pages.logs_were_read(VIEWER, seen, 0.0)
    pages.entry.seconds = 10e-6
    some = dict(list(seen.items())[:10])
    await bitmaps.add({owner: of_owner.log for owner, of_owner in some.items()})
    graph.logs_read.clear()
    assert await pages.counts(VIEWER, [1]) is None  # three quarters would have to be read and added
    assert graph.logs_read == []
    rest = dict(list(seen.items())[10:38])
    await bitmaps.add({owner: of_owner.log for owner, of_owner in rest.items()})
    assert await pages.counts(VIEWER, [1]) == await expected(graph, VIEWER, [1])
    assert len(graph.logs_read) == 2
    await pages.close()


async def test_a_game_that_left_sends_the_page_to_the_logs(
    graph: CountedGraph, bitmap_pages: BitmapPages, bitmaps: PlayerBitmaps
) -> None:
    await bitmaps.catch_up(await graph.seen_owners(VIEWER))
    bitmaps._drop(7)
    assert await bitmap_pages.counts(VIEWER, [6, 7]) is None
    assert await bitmap_pages.counts(VIEWER, [6]) == await expected(graph, VIEWER, [6])


async def test_the_view_is_built_from_logs_behind_a_page_of_bitmaps(
    graph: CountedGraph, cold_pages: ColdPages, bitmaps: PlayerBitmaps, shared_redis: SharedRedis
) -> None:
    await bitmaps.catch_up(await graph.seen_owners(VIEWER))
    queries = QueryCount()
    query_count.set(queries)
    assert await cold_pages.counts(VIEWER, [1, 2]) == await expected(graph, VIEWER, [1, 2])
    assert queries.count == 2  # of the page, and of what was expected
    views = FriendViews(shared_redis)
    await until(lambda: is_ready(views))
    assert graph.seen_logs_read == 1
    view = await views.view(VIEWER)
    assert view is not None
    assert view.counts.get(1, 0) == (await expected(graph, VIEWER, [1]))[0]
    assert {row.state for row in view.rows.values()} == {CursorState.PUSH}
    # The view is there, or another builds it: nobody reads logs for nothing.
    await asyncio.gather(*(cold_pages.counts(VIEWER, [1]) for _ in range(5)))
    await cold_pages.close()
    assert graph.seen_logs_read == 1
    assert cold_pages.answered == {"logs": 0, "bitmaps": 6}


async def is_ready(views: FriendViews) -> bool:
    return (await views.token(VIEWER) or "").startswith("R")
