"""Several processes write one truth, and any of them may die at any moment."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.contract.truths import Truth, add_games, unpack

ROOT = Path(__file__).parents[2]


async def start_writer(truth: Truth, *arguments: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.contract.write_plays", truth.adapter, truth.place, *map(str, arguments)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )


def answers_in(output: bytes) -> list[tuple[int, int, int, int]]:
    """(user, game, ordinal, first) of each whole line."""
    answers = []
    for line in output.decode().splitlines(keepends=True):
        if line.endswith("\n"):
            user, game, ordinal, first = map(int, line.split())
            answers.append((user, game, ordinal, first))
    return answers


async def test_two_processes_and_this_one_are_first_once_each(truth: Truth) -> None:
    graph = await truth.open()
    await add_games(graph, 30)
    writers = [await start_writer(truth, 8, 25, 6, 30, seed) for seed in (1, 2)]
    mine = []
    for game in range(1, 31):
        for user in range(1, 7):
            answer = await graph.record_play(user, game)
            mine.append((user, game, answer.ordinal, int(answer.first)))
    outputs = await asyncio.gather(*(writer.communicate() for writer in writers))
    assert [writer.returncode for writer in writers] == [0, 0]
    theirs = [answer for output, _ in outputs for answer in answers_in(output)]
    assert len(theirs) == 2 * 8 * 25
    firsts = [answer for answer in mine + theirs if answer[3]]
    logs = {user: unpack(log) for user, log in (await graph.play_logs(range(1, 7))).items()}
    assert sorted((user, ordinal, game) for user, game, ordinal, _ in firsts) == [
        (user, ordinal, game) for user in range(1, 7) for ordinal, game in enumerate(logs[user], start=1)
    ]
    assert all(logs[user][ordinal - 1] == game for user, game, ordinal, _ in mine + theirs)
    told = sorted((row.user_id, row.ordinal, row.number) for row in await graph.outbox(10_000))
    assert told == sorted((user, ordinal, game) for user, game, ordinal, _ in firsts)


@pytest.mark.parametrize("kill_after", [1, 40, 400])
async def test_every_answered_play_survives_a_kill(truth: Truth, kill_after: int) -> None:
    graph = await truth.open()
    await add_games(graph, 2_000)
    writer = await start_writer(truth, 64, 1_000_000, 50, 2_000, 3)
    assert writer.stdout is not None
    output = b""
    while output.count(b"\n") < kill_after:
        output += await writer.stdout.read(65_536)
    writer.kill()
    output += await writer.stdout.read()
    await writer.wait()
    answers = answers_in(output)
    assert len(answers) >= kill_after
    for reader in (graph, await truth.open()):
        logs = {user: unpack(log) for user, log in (await reader.play_logs(range(1, 51))).items()}
        assert all(logs[user][ordinal - 1] == game for user, game, ordinal, _ in answers)
        told = {(row.user_id, row.ordinal, row.number) for row in await reader.outbox(1_000_000)}
        assert told == {(user, n, game) for user, log in logs.items() for n, game in enumerate(log, start=1)}
        for user, log in logs.items():
            assert len(await reader.played_games(user)) == len(log) == len(set(log))
    assert (await graph.record_play(1, 1)).ordinal  # the dead process left no lock
