"""The statements of the SQLite adapter: indexes for all that a request asks, slices where friends are very many."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from graph.changes import Play, friendship_change
from graph.social_graph import FriendshipRow, GameRow, PlayRow
from graph.sqlite import SQLiteGraph, friendships, games, outbox, plays, seen, users
from graph.sqlite.transaction import Transaction
from graph.visibility import CursorState, UserFlag


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[SQLiteGraph]:
    graph = SQLiteGraph(tmp_path / "truth.sqlite3")
    await graph.open()
    await graph.save_games([GameRow(game, None) for game in range(1, 21)])
    await graph.import_rows("plays", [PlayRow(user, game) for user in range(1, 51) for game in range(1, 1 + user % 20)])
    await graph.import_rows("friends", [FriendshipRow(25, user) for user in range(1, 51) if user != 25])
    yield graph
    await graph.close()


def plans(graph: SQLiteGraph, query: Callable[[sqlite3.Connection], object]) -> str:
    """What SQLite plans for every statement that a query runs."""
    connection = graph._file.connect(cache_kib=1_024)
    ran: list[str] = []
    connection.execute("BEGIN IMMEDIATE")
    connection.set_trace_callback(ran.append)  # statements with their parameters filled in
    query(connection)
    connection.set_trace_callback(None)
    statements = [sql for sql in ran if re.match(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE)", sql)]
    assert statements
    lines = [row[3] for sql in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
    connection.execute("ROLLBACK")
    connection.close()
    return "\n".join(lines)


def change(query: Callable[[Transaction], object]) -> Callable[[sqlite3.Connection], object]:
    return lambda connection: query(Transaction(connection, 0))


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(lambda connection: seen.read_seen_logs(connection, 25), id="seen_logs"),
        pytest.param(lambda connection: seen.read_seen_logs_of(connection, 25, [1, 2, 3]), id="seen_logs of owners"),
        pytest.param(lambda connection: seen.read_visibilities(connection, 25, [1, 2, 3]), id="visibilities"),
        pytest.param(lambda connection: friendships.read_friends(connection, [25, 1]), id="friends"),
        pytest.param(lambda connection: friendships.read_friend_page(connection, 25, 10, 3), id="friend_page"),
        pytest.param(lambda connection: plays.read_packed_logs(connection, [1, 2]), id="play_logs"),
        pytest.param(lambda connection: plays.read_played_games(connection, 2), id="played_games"),
        pytest.param(lambda connection: users.read_users(connection, [1, 2]), id="users"),
        pytest.param(lambda connection: users.read_states(connection, [1, 2]), id="user_state"),
        pytest.param(lambda connection: games.read_catalogue(connection, 10_000), id="catalogue"),
        pytest.param(change(lambda t: plays.record_plays(t, [Play(1, 20), Play(60, 1)])), id="record_play"),
        pytest.param(
            change(lambda t: friendships.change_edges(t, [friendship_change(1, 2, True)])), id="set_friendship"
        ),
        pytest.param(change(lambda t: outbox.mark_published(t, [1, 2, 3])), id="mark_published"),
        pytest.param(change(lambda t: outbox.acknowledge(t, [1, 2, 3])), id="acknowledge"),
    ],
)
async def test_requests_are_answered_from_indexes(
    graph: SQLiteGraph, query: Callable[[sqlite3.Connection], object]
) -> None:
    plan = plans(graph, query)
    gathered = re.findall(r"(?:CO-ROUTINE|MATERIALIZE) (\w+)", plan)  # rows found by index before
    scanned = re.findall(r"SCAN (u|e|g|t|users|edges|games|play_times|outbox)\b(?! USING)", plan)
    scans = [table for table in scanned if table not in gathered]
    assert scans == [], plan


async def test_both_sides_of_an_edge_are_found_by_index(graph: SQLiteGraph) -> None:
    plan = plans(graph, lambda connection: seen.read_seen_logs(connection, 25))
    assert "SEARCH edges USING COVERING INDEX edges_by_high (high=?)" in plan
    assert "SEARCH edges USING PRIMARY KEY (low=?)" in plan
    assert "SEARCH u USING INTEGER PRIMARY KEY (rowid=?)" in plan


async def test_the_outbox_is_read_from_what_waits(graph: SQLiteGraph) -> None:
    plan = plans(graph, lambda connection: outbox.read_outbox(connection, 10))
    assert "outbox_waiting" in plan
    assert "TEMP B-TREE" not in plan


async def test_a_cold_page_is_one_statement(graph: SQLiteGraph) -> None:
    connection = graph._file.connect(cache_kib=1_024)
    ran: list[str] = []
    connection.set_trace_callback(ran.append)
    assert len(seen.read_seen_logs(connection, 25)) == 49
    connection.close()
    assert len(ran) == 1


@pytest.mark.parametrize("owners", [1, 7, 48, 49, 50])
async def test_very_many_friends_are_read_in_slices_of_one_snapshot(
    graph: SQLiteGraph, monkeypatch: pytest.MonkeyPatch, owners: int
) -> None:
    await graph.set_activity_hidden(3, True)
    whole = await graph.seen_logs(25)
    asked = await graph.seen_logs(25, range(1, 60))
    assert len(whole) == 48
    assert len(asked) == 59
    monkeypatch.setattr(seen, "OWNERS_A_STATEMENT", owners)
    assert await graph.seen_logs(25) == whole
    assert await graph.seen_logs(25, range(1, 60)) == asked
    assert {owner: log for owner, log in asked.items() if log.state} == whole


async def test_pull_users_are_seen_as_pull(graph: SQLiteGraph) -> None:
    assert graph._writer is not None
    graph._writer._connection.execute("UPDATE users SET state = ? WHERE id = 7", (8 + int(UserFlag.PULL),))
    log = (await graph.seen_logs(25))[7]
    assert (log.version, log.state, len(log.log)) == (2, CursorState.PULL, 28)
    assert (await graph.visibilities(25, [7]))[7] == (2, CursorState.PULL)
    await graph.set_activity_hidden(7, True)
    assert (await graph.visibilities(25, [7]))[7] == (3, CursorState.OFF)
    assert await graph.user_state(7) == 16 + UserFlag.PULL + UserFlag.HIDDEN


async def test_a_busy_interpreter_holds_a_cold_page_up_once_and_not_once_a_friend(graph: SQLiteGraph) -> None:
    await graph.import_rows("friends", [FriendshipRow(25, user) for user in range(100, 1_100)])
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            sum(range(1_000))

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        begun = time.perf_counter()
        assert len(await graph.seen_logs(25)) == 1_049
        took = time.perf_counter() - begun
    finally:
        stop.set()
        busy.join()
    assert took < 1.5  # at 5 ms a row it would be more than 5 s
