"""Users with more friends than their plays are pushed to, through the API: exact pages, and what they cost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from graph.social_graph import PlayRow
from graph.visibility import version_of
from signals.view import Row
from tests.app.lastfm import LastFM
from tests.app.world import World, world
from tests.waiting import until
from workers.lease import Lease
from workers.pulled_logs import LEASE_NAME, PulledLogsPublisher

LIMIT = 5
STAR = 1000
FRIENDS = list(range(1, 41))
GAMES = list(range(1, 61))
PUSH, PULL = 1, 2


@pytest.fixture
async def crowd(tmp_path: Path, redis_url: str) -> AsyncIterator[World]:
    """A star with 40 friends, of whom two have views, where five are pushed to."""
    async with world(tmp_path, redis_url, fanout_max_friends=LIMIT) as running:
        await running.games(len(GAMES))
        await running.play(STAR, 1)
        for friend in FRIENDS:
            await running.befriend(STAR, friend)
        await running.resident(1, 2)
        await running.drained()
        yield running


async def row_of(headcount: World, viewer: int, owner: int) -> Row:
    """What a viewer's view knows of an owner."""
    view = await headcount.application.views.view(viewer)
    assert view is not None
    return view.rows[owner]


async def test_a_stars_plays_are_not_pushed_and_show_on_every_friends_page_within_a_second(crowd: World) -> None:
    assert (await row_of(crowd, 1, STAR)).state == PULL
    for game in (2, 3):
        await crowd.play(STAR, game)
    await crowd.drained()
    assert (await row_of(crowd, 2, STAR)).cursor == 1

    async def shown() -> bool:
        return await crowd.friends_played(1, [1, 2, 3, 4]) == [1, 1, 1, 0]

    await until(shown, seconds=20)
    pages = await asyncio.gather(*(crowd.friends_played(friend, [1, 2, 3, 4]) for friend in FRIENDS))
    assert pages == [[1, 1, 1, 0]] * len(FRIENDS)
    assert (await row_of(crowd, 2, STAR)).cursor == 3


async def test_a_page_costs_one_round_trip_until_the_star_plays(tmp_path: Path, redis_url: str, crowd: World) -> None:
    query = '{ games(ids: ["1", "2", "3"]) { friendsPlayed friendsPlayedAsOf } }'
    async with world(
        tmp_path, redis_url, workers=False, fanout_max_friends=LIMIT, recount_interval_ms=60_000
    ) as slow:  # it looks at the published lengths when told to
        application = slow.application
        await application.pulled_logs.refresh()

        async def page(user: int) -> tuple[list[int], tuple[int, int]]:
            body = await slow.post(query, user=user)
            cost = body["extensions"]["cost"]
            return [game["friendsPlayed"] for game in body["data"]["games"]], tuple(cost.values())

        assert await page(1) == ([1, 0, 0], (1, 0))
        await crowd.play(STAR, 2)
        await crowd.drained()
        assert await page(1) == ([1, 0, 0], (1, 0))

        async def published() -> bool:
            await application.pulled_logs.refresh()
            return application.pulled_logs.length(STAR) == 2

        await until(published)
        assert await page(1) == ([1, 1, 0], (3, 1))
        assert await page(1) == ([1, 1, 0], (1, 0))
        assert await page(2) == ([1, 1, 0], (3, 0))  # the log was read for the other
        assert await page(2) == ([1, 1, 0], (1, 0))


async def test_a_page_says_how_old_its_lengths_are(tmp_path: Path, redis_url: str, crowd: World) -> None:
    query = '{ game(id: "1") { friendsPlayedAsOf } }'
    async with world(tmp_path, redis_url, workers=False, fanout_max_friends=LIMIT, recount_interval_ms=60_000) as slow:
        await slow.application.pulled_logs.refresh()
        first = await slow.ask(query, user=1)
        await asyncio.sleep(0.05)
        assert await slow.ask(query, user=1) == first  # what is known of the star is as old as before
        await crowd.play(3, 1)
        unrelated = await slow.ask(query, user=STAR)  # nobody is pulled for the star: its friends' plays are pushed
        assert unrelated["game"]["friendsPlayedAsOf"] > first["game"]["friendsPlayedAsOf"]


async def test_without_anybody_who_publishes_pages_are_exact(tmp_path: Path, redis_url: str) -> None:
    async with world(tmp_path, redis_url, fanout_max_friends=LIMIT) as prepared:
        await prepared.games(5)
        for friend in FRIENDS:
            await prepared.befriend(STAR, friend)
        await prepared.resident(1)
        await prepared.drained()
    async with world(tmp_path, redis_url, workers=False, fanout_max_friends=LIMIT) as alone:
        await until(lambda: alone.application.pulled_logs.late)
        await alone.play(STAR, 1)

        async def shown() -> bool:
            return await alone.friends_played(1, [1, 2]) == [1, 0]

        await until(shown)
        assert (await row_of(alone, 1, STAR)).cursor == 1


async def test_who_publishes_is_followed_when_it_dies(crowd: World) -> None:
    application = crowd.application
    application.supervisor._tasks["pulled-logs-publisher"].cancel()  # as though its process had died
    other = PulledLogsPublisher(
        application.graph, application.redis, 50, Lease(application.redis, LEASE_NAME, ttl_seconds=2.5)
    )
    await until(other.publish)


class Clients:
    """Twenty clients who play, befriend and part around some stars, so that those cross the limit again and again."""

    def __init__(self, headcount: World, people: LastFM) -> None:
        self.headcount = headcount
        self.people = people
        self.stars = [STAR, STAR + 1, STAR + 2]

    async def run(self, number: int, wave: int) -> None:
        """One client. In waves 0, 2 … more befriend than part, in the others more part."""
        chosen = random.Random(1_000 * wave + number)
        befriend, part = (6, 1) if wave % 2 == 0 else (1, 6)
        own = FRIENDS[number::20]  # nobody else changes the friendships of these
        for _ in range(20):
            star, friend = chosen.choice(self.stars), chosen.choice(own)
            match chosen.choices(("play", "befriend", "part", "page"), (4, befriend, part, 4))[0]:
                case "play":
                    player = chosen.choice([star, star, friend])
                    game = chosen.choice(GAMES)
                    await self.headcount.play(player, game)
                    self.people.play(player, game)
                case "befriend":
                    await self.headcount.befriend(star, friend)
                    self.people.befriend(star, friend)
                case "part":
                    await self.headcount.part(friend, star)
                    self.people.part(friend, star)
                case _:
                    await self.headcount.friends_played(friend, GAMES[:30])


async def test_counts_equal_plain_sets_after_stars_crossed_the_limit_both_ways_under_load(
    tmp_path: Path, redis_url: str
) -> None:
    async with world(tmp_path, redis_url, fanout_max_friends=20, signal_deadline_ms=10_000) as headcount:
        await headcount.games(len(GAMES))
        people = LastFM()
        clients = Clients(headcount, people)
        viewers = [*FRIENDS, *clients.stars]
        await headcount.resident(*viewers[::2])
        for wave in range(3):
            await asyncio.gather(*(clients.run(number, wave) for number in range(20)))
            await headcount.drained(seconds=60)

            async def exact(viewer: int) -> bool:
                expected = [people.friends_played(viewer, game) for game in GAMES]
                return await headcount.friends_played(viewer, GAMES) == expected

            await asyncio.gather(*(until(partial(exact, viewer), seconds=40) for viewer in viewers))
        for star in clients.stars:
            assert version_of(await headcount.application.graph.user_state(star)) >= 3  # how often it crossed


@pytest.mark.parametrize("limit", [1, 2_000], ids=["pulled", "pushed"])
async def test_long_histories_are_gained_and_taken_back_under_load_by_resident_and_cold(
    tmp_path: Path, redis_url: str, limit: int
) -> None:
    """Two users with 2,000 games each, half of them the same, become friends, part, and become friends again."""
    a, b, mutual, watcher = 1, 2, 3, 4
    games = list(range(1, 3_101))
    async with world(tmp_path, redis_url, fanout_max_friends=limit) as headcount:
        await headcount.games(len(games))
        graph = headcount.application.graph
        played = {a: set(games[:2_000]), b: set(games[1_000:3_000]), mutual: set(games[500:600]), watcher: set()}
        for user, of_user in played.items():
            await graph.import_rows("plays", [PlayRow(user, game) for game in sorted(of_user)])
        for friend in (a, b):
            await headcount.befriend(mutual, friend)
        await headcount.resident(a, b, mutual)
        await headcount.drained()

        async def load(friends: bool) -> None:
            """Both play on, and others come and go, while the two become friends or part."""
            new = [game for game in games[3_000:] if game not in played[a]][:8]
            change = headcount.befriend if friends else headcount.part

            async def plays(user: int) -> None:
                for game in new:
                    await headcount.play(user, game)
                    played[user].add(game)

            async def others() -> None:
                for _ in range(5):
                    await headcount.befriend(a, watcher)
                    await headcount.part(watcher, a)

            await asyncio.gather(plays(a), plays(b), others(), change(a, b))

        async def compare(friends: bool) -> None:
            expected = {
                a: [int(game in played[mutual]) + (friends and game in played[b]) for game in games],
                b: [int(game in played[mutual]) + (friends and game in played[a]) for game in games],
                mutual: [int(game in played[a]) + int(game in played[b]) for game in games],
            }
            for viewer, counts in expected.items():
                page = slice(950, 1_050)

                async def exact(viewer: int = viewer, counts: list[int] = counts, page: slice = page) -> bool:
                    return await headcount.friends_played(viewer, games[page]) == counts[page]

                await until(exact, seconds=30)
                await headcount.resident(viewer)
                whole = await headcount.application.views.counts(viewer) or {}
                assert [whole.get(game, 0) for game in games] == counts, viewer  # numbers are ids here

        for resident in (True, False):
            for friends in (True, False, True):
                if not resident:
                    await headcount.application.views.evict([a, b])
                await load(friends)
                await headcount.drained()
                await compare(friends)
