"""A commit whose outcome is unknown: settled by reading, done once, answered as it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from graph.neo4j import Neo4jGraph
from graph.social_graph import ChangeKind, Friendship, RecordedPlay, TruthUnavailableError
from tests.contract.truths import add_games, unpack
from tests.neo4j.conftest import cypher, make_graph
from tests.neo4j.proxy import Fault, LossyWire
from tests.neo4j.server import Access
from tests.waiting import until

FAULTS = [Fault.NOT_SENT, Fault.NOT_ANSWERED, Fault.SENT_LATE]


@pytest.fixture
async def wire(access: Access) -> AsyncIterator[LossyWire]:
    async with LossyWire(access.uri) as wire:
        yield wire


@pytest.fixture
async def lossy(access: Access, wire: LossyWire) -> AsyncIterator[Neo4jGraph]:
    graph = make_graph(access, uri=wire.uri)
    await graph.open()
    yield graph
    await graph.close()


@pytest.mark.parametrize("fault", FAULTS)
async def test_plays_are_answered_as_they_were_recorded(lossy: Neo4jGraph, wire: LossyWire, fault: Fault) -> None:
    await add_games(lossy, 20)
    await lossy.record_play(7, 3)
    wire.fault = fault
    plays = [(7, 3), (7, 4), (8, 3), (8, 3), (7, 5)]
    answers = await asyncio.gather(*(lossy.record_play(*play) for play in plays))
    assert wire.lost == 1
    assert answers == [
        RecordedPlay(False, 1),
        RecordedPlay(True, 2),
        RecordedPlay(True, 1),
        RecordedPlay(False, 1),
        RecordedPlay(True, 3),
    ]
    assert {user: unpack(log) for user, log in (await lossy.play_logs([7, 8])).items()} == {7: [3, 4, 5], 8: [3]}
    told = [(row.user_id, row.ordinal, row.number) for row in await lossy.outbox(50)]
    assert sorted(told) == [(7, 1, 3), (7, 2, 4), (7, 3, 5), (8, 1, 3)]


@pytest.mark.parametrize("fault", FAULTS)
async def test_changes_that_must_not_be_made_twice(lossy: Neo4jGraph, wire: LossyWire, fault: Fault) -> None:
    wire.fault = fault
    answers = await asyncio.gather(
        lossy.set_friendship(1, 2, True),
        lossy.set_friendship(1, 2, False),
        lossy.set_friendship(2, 1, True),
        lossy.block(1, 2, True),
        lossy.set_activity_hidden(2, True),
        lossy.delete_user(3),
    )
    assert wire.lost == 1
    assert list(answers) == [Friendship(True, 1), Friendship(False, 2), Friendship(True, 3), True, True, True]
    assert (await lossy.visibilities(1, [2]))[2].version == 5
    kinds = [row.kind for row in await lossy.outbox(50)]
    assert kinds == [ChangeKind.EDGE] * 4 + [ChangeKind.USER] * 2


@pytest.mark.parametrize("fault", FAULTS)
async def test_batches_of_acknowledgements_stay_dense(lossy: Neo4jGraph, wire: LossyWire, fault: Fault) -> None:
    await lossy.set_friendship(1, 2, True)
    (row,) = await lossy.outbox(5)
    await lossy.mark_published([row.id])
    wire.fault = fault
    assert await lossy.acknowledge([row.id]) == 1
    assert wire.lost == 1
    assert await lossy.acknowledge([]) == 2


@pytest.mark.parametrize("fault", FAULTS)
async def test_games_get_one_number_each(lossy: Neo4jGraph, wire: LossyWire, fault: Fault) -> None:
    wire.fault = fault
    await add_games(lossy, 3)
    assert wire.lost == 1
    assert [game.number for game in (await lossy.catalogue()).changed] == [1, 2, 3]
    assert (await lossy.catalogue()).version == 1


async def test_somebody_elses_later_change_is_not_undone(lossy: Neo4jGraph, wire: LossyWire, access: Access) -> None:
    """The commit is kept and its answer lost; another process parts the two before the first one asks about it."""
    other = make_graph(access)
    await other.open()
    await lossy.set_friendship(1, 2, False)
    wire.fault = Fault.NOT_ANSWERED
    wire.refusing = True  # so that asking takes a moment
    change = asyncio.ensure_future(lossy.set_friendship(1, 2, True))
    await until(lambda: wire.lost == 1)

    async def kept() -> bool:
        return await other.friends([1]) == {1: [2]}

    await until(kept)
    assert await other.set_friendship(1, 2, False) == Friendship(False, 2)
    wire.refusing = False
    assert await change == Friendship(True, 1)
    assert await other.friends([1]) == {1: []}
    assert (await other.visibilities(1, [2]))[2].version == 2
    await other.close()


async def test_nobody_is_told_what_nobody_knows(
    lossy: Neo4jGraph, wire: LossyWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graph.neo4j.writer.SETTLE_SECONDS", 0.3)
    await add_games(lossy, 2)
    wire.fault = Fault.NOT_ANSWERED
    wire.refusing = True
    with pytest.raises(TruthUnavailableError, match="nobody knows whether it was kept"):
        await lossy.record_play(7, 1)
    wire.refusing = False
    assert await lossy.record_play(7, 1) == RecordedPlay(False, 1)
    assert await lossy.record_play(7, 2) == RecordedPlay(True, 2)


async def test_a_cut_connection_is_healed_within_the_call(lossy: Neo4jGraph, wire: LossyWire) -> None:
    await add_games(lossy, 40)
    for game in range(1, 41):
        if game % 4 == 0:
            wire.cut()
        assert await lossy.record_play(7, game) == RecordedPlay(True, game)
        assert len((await lossy.play_logs([7]))[7]) == 4 * game


async def test_away_and_healed_without_a_restart(lossy: Neo4jGraph, wire: LossyWire) -> None:
    await add_games(lossy, 3)
    await lossy.record_play(7, 1)
    wire.refusing = True
    wire.cut()
    calls = (
        lossy.record_play(7, 2),
        lossy.play_logs([7]),
        lossy.seen_logs(7),
        lossy.catalogue(),
        lossy.outbox(5),
        lossy.acknowledge([]),
        lossy.import_rows("plays", []),
        lossy.totals(),
    )
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer).__mro__[1] for answer in answers] == [TruthUnavailableError] * len(calls)
    assert all("\n" not in str(answer) and "cannot be reached" in str(answer) for answer in answers)
    wire.refusing = False
    assert await lossy.record_play(7, 3) == RecordedPlay(True, 2)


async def test_a_cancelled_caller_kills_no_connection(lossy: Neo4jGraph, wire: LossyWire) -> None:
    await add_games(lossy, 30)
    for game in range(1, 31):
        calls = [asyncio.ensure_future(call) for call in (lossy.record_play(7, game), lossy.play_logs([7]))]
        await asyncio.sleep(0.004)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    assert (await lossy.record_play(7, 30)).first is False
    assert unpack((await lossy.play_logs([7]))[7]) == list(range(1, 31))
    assert wire.alive == wire.accepted


async def test_a_process_whose_clock_is_ahead_drops_nobody_elses_node(access: Access) -> None:
    """By the server's clock: without its node, whether a writer's lost commit was kept could not be read."""
    graph = make_graph(access)
    await graph.open()
    await add_games(graph, 1)
    ahead = make_graph(access, clock=lambda: time.time() + 400 * 86_400)
    await ahead.open()
    await ahead.record_play(1, 1)
    days_ago = "MATCH (w:HeadcountWriter) RETURN max(timestamp() - w.at) / 86400000"
    assert cypher(access, days_ago) == [[0]]
    await ahead.close()
    assert cypher(access, "MATCH (w:HeadcountWriter) RETURN count(w)") == [[1]]
    cypher(access, 'CREATE (:HeadcountWriter {id: "killed", turn: 1, at: timestamp() - 8 * 86400000})')
    cypher(access, 'CREATE (:HeadcountWriter {id: "at work", turn: 1, at: timestamp() - 6 * 86400000})')
    await graph.close()
    assert cypher(access, "MATCH (w:HeadcountWriter) RETURN w.id") == [["at work"]]
