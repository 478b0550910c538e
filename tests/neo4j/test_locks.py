"""Who waits for whom: nobody for a game, and two who wait for each other not for long."""

from __future__ import annotations

import asyncio
import random

import neo4j
import pytest

from graph.neo4j import Neo4jGraph
from graph.social_graph import RecordedPlay, UserRow
from tests.contract.truths import add_games
from tests.neo4j.conftest import make_graph
from tests.neo4j.server import Access

VIRAL = 1
PLAYERS = 2_000


async def test_2000_first_plays_of_one_game_touch_no_common_record(graph: Neo4jGraph, access: Access) -> None:
    """All that the players could share is locked by somebody else meanwhile, and another player's record too."""
    await add_games(graph, 2)
    await graph.record_play(PLAYERS + 1, 2)
    other = make_graph(access)
    await other.open()
    await other.record_play(PLAYERS + 2, 2)
    async with (
        neo4j.AsyncGraphDatabase.driver(access.uri, auth=(access.user, access.password)) as driver,
        driver.session(database=access.database) as session,
        await session.begin_transaction() as held,
    ):
        for shared in (
            "MATCH (n:HeadcountGame) SET n.held = 1",
            "MATCH (n:HeadcountCounter) SET n.held = 1",
            "MATCH (n:HeadcountTruth) SET n.held = 1",
            "MATCH (n:HeadcountOutbox) SET n.held = 1",
            f"MATCH (n:HeadcountUser {{id: {PLAYERS + 1}}}) SET n.held = 1",
        ):
            await (await held.run(shared)).consume()
        async with asyncio.timeout(60):
            answers = await asyncio.gather(
                *((graph if user % 2 else other).record_play(user, VIRAL) for user in range(1, PLAYERS + 1))
            )
        await held.rollback()
    assert answers == [RecordedPlay(True, 1)] * PLAYERS
    await other.close()


async def test_first_plays_of_one_game_wait_for_no_lock(graph: Neo4jGraph, access: Access) -> None:
    """Neo4j's own figures: while eight writers record plays of one game, no transaction is seen waiting for a lock."""
    await add_games(graph, 1)
    graphs = [graph] + [make_graph(access) for _ in range(7)]
    for each in graphs[1:]:
        await each.open()
    statuses: list[tuple[str, int]] = []
    done = asyncio.Event()

    async def look() -> None:
        text = """
            SHOW TRANSACTIONS YIELD status, activeLockCount, waitTime, currentQuery
            WHERE currentQuery CONTAINS 'HeadcountUser' RETURN status, coalesce(waitTime.milliseconds, 0)
        """
        async with neo4j.AsyncGraphDatabase.driver(access.uri, auth=(access.user, access.password)) as driver:
            while not done.is_set():
                records, _, _ = await driver.execute_query(text, database_=access.database)
                statuses.extend((record[0], record[1]) for record in records)

    looking = asyncio.create_task(look())
    users = range(1, 2_001)
    plays = [graphs[user % len(graphs)].record_play(user, VIRAL) for user in users]
    answers = await asyncio.gather(*plays)
    done.set()
    await looking
    assert all(answer.first for answer in answers)
    assert statuses, "plays were looked at while they ran"
    assert [status for status, _ in statuses if status.startswith("Blocked")] == []
    assert max(waited for _, waited in statuses) == 0
    for each in graphs[1:]:
        await each.close()


async def test_deadlocks_are_made_again_within_the_call(graph: Neo4jGraph, access: Access) -> None:
    """Somebody locks users the other way round, so that Neo4j ends one of the two again and again."""
    await graph.save_users([UserRow(user, None) for user in range(1, 21)])
    await add_games(graph, 30)
    done = asyncio.Event()
    deadlocks = 0

    async def cross() -> None:
        nonlocal deadlocks
        async with neo4j.AsyncGraphDatabase.driver(access.uri, auth=(access.user, access.password)) as driver:
            while not done.is_set():
                try:
                    async with (
                        driver.session(database=access.database) as session,
                        await session.begin_transaction(timeout=5) as crossing,
                    ):
                        for user in range(20, 0, -1):
                            text = "MATCH (u:HeadcountUser {id: $id}) SET u.id = u.id"
                            await (await crossing.run(text, id=user)).consume()
                except neo4j.exceptions.Neo4jError:  # a deadlock, or its own time is over
                    deadlocks += 1

    crossing = asyncio.create_task(cross())
    choose = random.Random(5)
    for _ in range(30):
        await asyncio.gather(
            *(graph.record_play(user, choose.randint(1, 30)) for user in range(1, 21)),
            graph.set_friendship(choose.randint(1, 10), choose.randint(11, 20), choose.random() < 0.6),
        )
    done.set()
    await crossing
    logs = await graph.play_logs(range(1, 21))
    rows = await graph.outbox(10_000)
    assert sum(len(log) // 4 for log in logs.values()) == sum(row.kind == "play" for row in rows)


@pytest.mark.parametrize("writers", [8])
async def test_many_processes_change_the_same_edges_and_logs(access: Access, writers: int) -> None:
    graphs = [make_graph(access) for _ in range(writers)]
    for graph in graphs:
        await graph.open()
    await add_games(graphs[0], 10)

    async def write(seed: int) -> int:
        choose = random.Random(seed)
        firsts = 0
        for _ in range(15):
            one, other = choose.sample(range(1, 7), 2)
            answers = await asyncio.gather(
                graphs[seed].record_play(choose.randint(1, 6), choose.randint(1, 10)),
                graphs[seed].set_friendship(one, other, choose.random() < 0.5),
                graphs[seed].set_activity_hidden(choose.randint(1, 6), choose.random() < 0.5),
            )
            firsts += answers[0].first
        return firsts

    firsts = sum(await asyncio.gather(*(write(seed) for seed in range(writers))))
    rows = await graphs[0].outbox(10_000)
    assert sum(row.kind == "play" for row in rows) == firsts
    for low in range(1, 7):
        changes = sum(row.kind == "user" and row.user_id == low for row in rows)
        assert await graphs[1].user_state(low) >> 3 == changes
        for high in range(low + 1, 7):
            edges = sum(row.kind == "edge" and (row.user_id, row.other_id) == (low, high) for row in rows)
            (seen,) = (await graphs[2].visibilities(low, [high])).values()
            assert seen.version == edges + (await graphs[2].user_state(high) >> 3)
    for graph in graphs:
        await graph.close()
