"""After a storm: everything has drained, and then every count of everybody is compared with plain sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from events.dead_letters import DeadLetters
from events.redis_streams import EventLog
from graph.social_graph import SocialGraph
from signals.markers import ShardMarkers
from signals.redis import SharedRedis
from signals.views import FriendViews
from tests.contract.truths import unpack
from tests.storm.api_storm_people import StormPeople
from tests.storm.api_storm_truths import StormTruth
from tests.waiting import until

DRAIN_SECONDS = 150.0
USERS_AT_ONCE = 200
SHOWN = 5


class Compared(NamedTuple):
    """What was compared: users in all, and how many of them by their views."""

    users: int
    views: int
    pairs: int


class Comparison:
    """Looks at both stores from beside.

    Args:
        people: the plain sets.
        truth: how to see what is left in the outbox.
        graph: the truth, open.
        redis: of the storm.
    """

    def __init__(self, people: StormPeople, truth: StormTruth, graph: SocialGraph, redis: SharedRedis) -> None:
        self.views = FriendViews(redis)
        self._people = people
        self._truth = truth
        self._graph = graph
        self._redis = redis
        self._events = EventLog(redis.client)
        self._markers = ShardMarkers(redis)

    async def drained(self) -> None:
        """Wait until the outbox is published and acknowledged, the log empty, and every shard known to have it all."""
        state: object = None

        async def nothing_left() -> bool:
            nonlocal state
            left = await self._truth.left()
            depths = await self._events.depths()
            last = await self._graph.acknowledged_batch()
            behind = sum(marker.batch != last for marker in (await self._markers.read()).values())
            state = {"outbox": left, "log": [tuple(map(sum, zip(*depths, strict=True)))], "shards behind": behind}
            return left == 0 and all(depth == (0, 0) for depth in depths) and behind == 0

        try:
            await until(nothing_left, seconds=DRAIN_SECONDS)
        except TimeoutError:
            raise AssertionError(f"not drained within {DRAIN_SECONDS:.0f} s: {state}") from None
        assert await DeadLetters(self._redis.client).count() == 0

    async def truth_is_as_answered(self, numbers: Mapping[int, int]) -> None:
        """Logs, friendships and who sees whom: what was answered is there once, and nothing else."""
        people = self._people
        logs = {user: unpack(log) for user, log in (await self._graph.play_logs(people.users)).items()}
        for user in people.users:
            log = [numbers[number] for number in logs.get(user, ())]
            assert len(log) == len(set(log)), f"user {user}: a play stands twice in {log}"
            lost, unasked = people.games_of[user] - set(log), set(log) - people.games_of[user]
            assert not lost, f"user {user}: plays that were answered and are gone: {lost}"
            assert not unasked, f"user {user}: plays that nobody made: {unasked}"
        for start in range(0, len(people.users), USERS_AT_ONCE):
            part = people.users[start : start + USERS_AT_ONCE]
            friends = await self._graph.friends(part)
            assert friends == {user: sorted(people.friends[user]) for user in part}

    async def counts_are_exact(self, numbers: Mapping[int, int]) -> Compared:
        """Everybody's counts of all games: those of views read whole, the others as cold pages count them."""
        wrong: dict[int, object] = {}
        views = pairs = 0
        for user in self._people.users:
            expected = dict(self._people.counts(user))
            counts = await self.views.counts(user)
            if counts is None:
                seen = await self._graph.seen_logs(user)
                counts = Counter(number for owner in seen.values() for number in unpack(owner.log))
            else:
                views += 1
            found = {numbers[number]: count for number, count in counts.items()}
            pairs += len(expected)
            if found != expected:
                wrong[user] = await self._explain(user, found, expected)
        assert not wrong, f"{len(wrong)} users have wrong counts: {dict(list(wrong.items())[:SHOWN])}"
        return Compared(len(self._people.users), views, pairs)

    async def _explain(self, user: int, found: dict[int, int], expected: dict[int, int]) -> dict[str, object]:
        """What differs, and which rows of the view are not as the truth has them."""
        games = {
            game: (found.get(game), expected.get(game))
            for game in sorted(found.keys() | expected.keys())
            if found.get(game) != expected.get(game)
        }
        seen = {owner: (log.version, len(log.log) // 4) for owner, log in (await self._graph.seen_logs(user)).items()}
        view = await self.views.view(user)
        rows = {} if view is None else {owner: row for owner, row in view.rows.items() if row.state}
        differing = {
            owner: (rows.get(owner), seen.get(owner))
            for owner in sorted(rows.keys() | seen.keys())
            if owner not in rows or owner not in seen or (rows[owner].version, rows[owner].cursor) != seen[owner]
        }
        return {
            "games (found, expected)": dict(list(games.items())[:SHOWN]),
            "friends (row, truth)": differing,
            "seen but not by plain sets": sorted(set(seen) ^ self._people.seen_by(user)),
        }
