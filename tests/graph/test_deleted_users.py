"""The deleted users as a process holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph import deleted_users as deleted_users_module
from graph.deleted_users import DeletedUsers
from graph.sqlite import SQLiteGraph
from tests.contract.truths import make_truth

LAST = 2**63 - 1


async def test_a_refresh_learns_what_others_deleted(tmp_path: Path) -> None:
    truth = make_truth("sqlite", tmp_path)
    graph, deleted, grown = await truth.open(), DeletedUsers(), []
    deleted.on_growth(lambda: grown.append(len(deleted)))
    await deleted.refresh(graph)
    assert (len(deleted), grown) == (0, [])
    for user in (5, LAST):
        await graph.delete_user(user)
    await deleted.refresh(graph)
    await deleted.refresh(graph)
    assert [user in deleted for user in (4, 5, 6, LAST, LAST - 1)] == [False, True, False, True, False]
    assert grown == [2]
    deleted.add(9)
    await graph.delete_user(9)
    await deleted.refresh(graph)
    assert (9 in deleted, len(deleted), grown) == (True, 3, [2, 3])
    await truth.close()


async def test_of_another_truth_nothing_stays(tmp_path: Path) -> None:
    deleted = DeletedUsers()
    for number in (1, 2):
        graph = SQLiteGraph(tmp_path / f"{number}.sqlite3")
        await graph.open()
        await graph.delete_user(number)
        await deleted.refresh(graph)
        assert [user in deleted for user in (1, 2)] == [number == 1, number == 2]
        await graph.close()


def test_many_are_held_as_a_sorted_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_users_module, "RECENT", 10)
    deleted, plain = DeletedUsers(), set()
    for user in [*range(1, 300, 7), LAST, LAST - 2, 3, 8, *range(LAST - 300, LAST, 11)]:
        deleted.add(user)
        plain.add(user)
    asked = {*range(310), *range(LAST - 310, LAST + 1)}
    assert {user for user in asked if user in deleted} == plain & asked
    assert len(deleted) == len(plain)
    assert "5" not in deleted
