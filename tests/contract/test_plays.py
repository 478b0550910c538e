"""Plays: conditional appends, once each, whoever else writes."""

from __future__ import annotations

import asyncio
import random

import pytest

from graph.social_graph import (
    ChangeKind,
    PlayedGame,
    PlayRow,
    RecordedPlay,
    SocialGraph,
    UnknownGameError,
    UserDeletedError,
)
from tests.contract.truths import Truth, add_games, unpack


async def test_the_first_play_is_first_and_a_repeat_is_not(graph: SocialGraph) -> None:
    await add_games(graph, 3)
    assert await graph.record_play(7, 2) == RecordedPlay(first=True, ordinal=1)
    assert await graph.record_play(7, 3) == RecordedPlay(first=True, ordinal=2)
    assert await graph.record_play(7, 2) == RecordedPlay(first=False, ordinal=1)
    assert await graph.record_play(7, 3) == RecordedPlay(first=False, ordinal=2)
    assert await graph.record_play(8, 3) == RecordedPlay(first=True, ordinal=1)
    assert {user: unpack(log) for user, log in (await graph.play_logs([7, 8, 9])).items()} == {7: [2, 3], 8: [3]}


async def test_a_play_keeps_the_time_of_the_first(graph: SocialGraph, truth: Truth) -> None:
    await add_games(graph, 2)
    begun = truth.clock.now_ms
    await graph.record_play(7, 1)
    truth.clock.now += 5
    await graph.record_play(7, 1)
    await graph.record_play(7, 2)
    assert await graph.played_games(7) == [PlayedGame(1, begun), PlayedGame(2, begun + 5_000)]
    assert await graph.played_games(8) == []


async def test_a_play_creates_the_user_and_tells_itself(graph: SocialGraph) -> None:
    await add_games(graph, 2)
    assert await graph.users([7]) == {}
    await graph.record_play(7, 2)
    await graph.record_play(7, 2)
    assert set(await graph.users([7])) == {7}
    (row,) = await graph.outbox(10)
    assert row[1:] == (ChangeKind.PLAY, 7, 0, 1, 2)


async def test_a_play_of_an_unknown_game_changes_nothing(graph: SocialGraph) -> None:
    with pytest.raises(UnknownGameError) as refused:
        await graph.record_play(7, 99)
    assert refused.value.game_id == 99
    assert await graph.users([7]) == {}
    assert await graph.outbox(10) == []


async def test_a_refused_play_leaves_those_beside_it_whole(graph: SocialGraph) -> None:
    await add_games(graph, 50)
    await graph.delete_user(4)
    plays = [graph.record_play(user, game) for game in range(1, 51) for user in (3, 4, 5)]
    answers = await asyncio.gather(*plays, graph.record_play(3, 99), return_exceptions=True)
    assert isinstance(answers.pop(), UnknownGameError)
    assert [type(answer) for answer in answers] == [RecordedPlay, UserDeletedError, RecordedPlay] * 50
    logs = {user: unpack(log) for user, log in (await graph.play_logs([3, 4, 5])).items()}
    assert logs == {3: list(range(1, 51)), 5: list(range(1, 51))}


async def test_ids_up_to_63_bits(graph: SocialGraph) -> None:
    greatest = 2**63 - 1
    await graph.import_rows("plays", [PlayRow(greatest, greatest)])
    assert await graph.record_play(greatest, greatest) == RecordedPlay(first=False, ordinal=1)
    assert await graph.record_play(greatest - 1, greatest) == RecordedPlay(first=True, ordinal=1)
    await graph.set_friendship(greatest, greatest - 1, True)
    assert await graph.friends([greatest]) == {greatest: [greatest - 1]}
    assert unpack((await graph.seen_logs(greatest))[greatest - 1].log) == [1]


async def test_the_same_play_a_thousand_times_at_once_is_one_fact(graph: SocialGraph) -> None:
    await add_games(graph, 1)
    answers = await asyncio.gather(*(graph.record_play(7, 1) for _ in range(1_000)))
    assert answers == [RecordedPlay(True, 1)] + [RecordedPlay(False, 1)] * 999  # the earliest caller is first
    assert len(await graph.outbox(10)) == 1


async def test_the_same_plays_through_two_openings_are_first_once(truth: Truth) -> None:
    graphs = [await truth.open(), await truth.open()]
    await add_games(graphs[0], 40)

    async def play_all(graph: SocialGraph, seed: int) -> list[tuple[int, int, int]]:
        games = random.Random(seed).sample(range(1, 41), 40)
        answers = [(user, game, await graph.record_play(user, game)) for game in games for user in (1, 2)]
        return [(user, game, answer.ordinal) for user, game, answer in answers if answer.first]

    firsts = [play for plays in await asyncio.gather(*(play_all(graphs[n % 2], n) for n in range(8))) for play in plays]
    assert len(firsts) == 80
    for user in (1, 2):
        by_ordinal = {ordinal: game for player, game, ordinal in firsts if player == user}
        assert sorted(by_ordinal) == list(range(1, 41))
        log = unpack((await graphs[1].play_logs([user]))[user])
        assert log == [by_ordinal[ordinal] for ordinal in range(1, 41)]
    rows = await graphs[0].outbox(1_000)
    assert sorted((row.user_id, row.number, row.ordinal) for row in rows) == sorted(firsts)
    for user in (1, 2):  # the outbox is in the order of the commits, so ordinals rise within it
        assert [row.ordinal for row in rows if row.user_id == user] == list(range(1, 41))


async def test_64_writers_lose_and_repeat_nothing(graph: SocialGraph) -> None:
    await add_games(graph, 60)

    async def write(seed: int) -> int:
        choose = random.Random(seed)
        answers = [await graph.record_play(choose.randint(1, 20), choose.randint(1, 60)) for _ in range(40)]
        return sum(answer.first for answer in answers)

    firsts = sum(await asyncio.gather(*(write(seed) for seed in range(64))))
    logs = await graph.play_logs(range(1, 21))
    assert sum(len(log) // 4 for log in logs.values()) == firsts
    for log in logs.values():
        assert len(set(unpack(log))) == len(log) // 4
    rows = await graph.outbox(10_000)
    assert len(rows) == firsts
    for user, log in logs.items():
        told = [(row.ordinal, row.number) for row in rows if row.user_id == user]
        assert told == list(enumerate(unpack(log), start=1))


async def test_a_cancelled_caller_cancels_nothing(graph: SocialGraph) -> None:
    await add_games(graph, 30)
    plays = [asyncio.ensure_future(graph.record_play(7, game)) for game in range(1, 31)]
    await asyncio.sleep(0)  # the plays are handed over
    for play in plays[::3]:
        play.cancel()
    answers = await asyncio.gather(*plays, return_exceptions=True)
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::3])
    kept = [answer for index, answer in enumerate(answers) if index % 3]
    assert all(isinstance(answer, RecordedPlay) and answer.first for answer in kept)
    log = unpack((await graph.play_logs([7]))[7])
    assert {game for game in range(1, 31) if (game - 1) % 3} <= set(log)
    assert len(set(log)) == len(log)


async def test_a_log_of_5000_games(graph: SocialGraph) -> None:
    assert not await graph.import_rows("plays", [PlayRow(7, game) for game in range(1, 5_001)])
    assert await graph.record_play(7, 5_000) == RecordedPlay(False, 5_000)
    assert await graph.record_play(7, 1) == RecordedPlay(False, 1)
    await graph.import_rows("plays", [PlayRow(8, 6_000)])
    assert await graph.record_play(7, 6_000) == RecordedPlay(True, 5_001)
    assert unpack((await graph.play_logs([7]))[7]) == list(range(1, 5_002))
    assert len(await graph.played_games(7)) == 5_001


async def test_plays_accepted_before_a_close_are_kept(truth: Truth) -> None:
    graph = await truth.open()
    await add_games(graph, 200)
    plays = [asyncio.ensure_future(graph.record_play(7, game)) for game in range(1, 201)]
    await asyncio.sleep(0)
    await graph.close()
    assert [answer.ordinal for answer in await asyncio.gather(*plays)] == list(range(1, 201))
    again = await truth.open()
    assert unpack((await again.play_logs([7]))[7]) == list(range(1, 201))
