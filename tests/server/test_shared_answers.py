"""Equal events are made once."""

from __future__ import annotations

import asyncio

import pytest

from server import shared_answers
from server.shared_answers import SharedAnswers
from tests.waiting import until


async def test_all_who_ask_for_a_key_get_what_the_first_one_made_though_it_goes_away() -> None:
    shared: SharedAnswers[int] = SharedAnswers()
    begun, gate = asyncio.Event(), asyncio.Event()

    async def make() -> int:
        begun.set()
        await gate.wait()
        return 7

    first = asyncio.create_task(shared.get("key", make))
    await begun.wait()
    others = [asyncio.create_task(shared.get("key", make)) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    assert await asyncio.gather(*others) == [7] * 3
    assert shared.made == 1
    assert await shared.get("another", make) == 7
    assert shared.made == 2


async def test_what_was_made_is_dropped_in_a_while_and_too_much_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_answers, "KEPT_SECONDS", 0.02)
    monkeypatch.setattr(shared_answers, "MOST_KEPT", 2)
    shared: SharedAnswers[int] = SharedAnswers()

    async def make() -> int:
        return shared.made

    assert [await shared.get(key, make) for key in (1, 2, 1, 2)] == [1, 2, 1, 2]
    assert [await shared.get(key, make) for key in (3, 3)] == [3, 4]
    await until(lambda: not shared._tasks)
    assert await shared.get(1, make) == 5
