"""Neo4j killed in the middle of writing, and started again: what was answered is there, and nothing is told twice."""

from __future__ import annotations

import asyncio
import random

import pytest

from graph.neo4j import Neo4jGraph
from graph.social_graph import RecordedPlay, TruthUnavailableError
from tests.conftest import skip_or_fail
from tests.contract.truths import add_games, unpack
from tests.neo4j.server import Neo4jServer

USERS, GAMES, CALLERS = 40, 400, 32


@pytest.mark.storm
@pytest.mark.timeout(400)
async def test_every_answered_play_survives_a_killed_server(
    graph: Neo4jGraph, neo4j_server: Neo4jServer | None
) -> None:
    if neo4j_server is None:
        skip_or_fail("the Neo4j of HEADCOUNT_TEST_NEO4J_URI is not ours to kill")
    await add_games(graph, GAMES)
    answers: list[tuple[int, int, RecordedPlay]] = []
    failures = 0
    stop = asyncio.Event()

    async def caller(seed: int) -> None:
        nonlocal failures
        choose = random.Random(seed)
        while not stop.is_set():
            user, game = choose.randint(1, USERS), choose.randint(1, GAMES)
            try:
                answers.append((user, game, await graph.record_play(user, game)))
            except TruthUnavailableError:
                failures += 1
                await asyncio.sleep(0.05)

    callers = [asyncio.create_task(caller(seed)) for seed in range(CALLERS)]
    for _ in range(2):
        before = len(answers)
        while len(answers) < before + 300:  # noqa: ASYNC110  # a count, not an event
            await asyncio.sleep(0.01)
        await asyncio.to_thread(neo4j_server.kill)
        await asyncio.to_thread(neo4j_server.start)
    before = len(answers)
    while len(answers) < before + 300:  # noqa: ASYNC110  # as above
        await asyncio.sleep(0.01)
    stop.set()
    await asyncio.gather(*callers)

    assert failures, "the server was away, and callers were told so"
    logs = {user: unpack(log) for user, log in (await graph.play_logs(range(1, USERS + 1))).items()}
    assert all(logs[user][answer.ordinal - 1] == game for user, game, answer in answers)
    firsts = [(user, game) for user, game, answer in answers if answer.first]
    assert len(set(firsts)) == len(firsts)
    told = sorted((row.user_id, row.ordinal, row.number) for row in await graph.outbox(100_000))
    assert told == sorted((user, n, game) for user, log in logs.items() for n, game in enumerate(log, start=1))
