"""Whom a viewer sees and how long their logs are: the same people as `seen_logs`, without the logs."""

from __future__ import annotations

import random

from graph.social_graph import SocialGraph
from tests.contract.truths import add_games


async def test_seen_owners_are_those_of_the_seen_logs(graph: SocialGraph) -> None:
    choose = random.Random(3)
    users = range(1, 9)
    await add_games(graph, 6)
    for step in range(60):
        one, other = choose.sample(users, 2)
        match choose.randrange(5):
            case 0 | 1:
                await graph.set_friendship(one, other, choose.random() < 0.7)
            case 2:
                await graph.block(one, other, choose.random() < 0.5)
            case 3:
                await graph.set_activity_hidden(one, choose.random() < 0.4)
            case _:
                await graph.record_play(one, choose.randint(1, 6))
        if step % 6 == 0:
            viewer = choose.choice(users)
            logs = await graph.seen_logs(viewer)
            assert await graph.seen_owners(viewer) == {owner: len(seen.log) // 4 for owner, seen in logs.items()}
    await graph.delete_user(1)
    for viewer in users:
        assert 1 not in await graph.seen_owners(viewer)
    assert await graph.seen_owners(999) == {}
