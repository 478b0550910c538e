"""Live counts leave out who hides and who is deleted, also after Redis forgot who that is."""

from __future__ import annotations

import asyncio

from signals.live_shards import LiveShards
from signals.published_totals import TOTALS_KEYS
from tests.app.privacy import delete, hide
from tests.app.test_live import beat, shows
from tests.app.world import World
from tests.storm.redis_snapshot import RedisSnapshot
from tests.waiting import until

A, B, C = 11, 12, 13


async def people(headcount: World, game: int) -> int | None:
    """The people in a game, as this process's table has them."""
    found = headcount.application.catalogue.game(game)
    assert found is not None
    return headcount.application.live_totals.people(found.number)


async def test_sessions_of_who_hides_leave_the_counts_and_come_back(headcount: World) -> None:
    await headcount.games(3)
    for user, session, game in ((A, "s", 1), (A, "t", 1), (A, "u", 2), (B, "s", 1)):
        await beat(headcount, user, session, game)
    await shows(headcount, g1=3, g2=1)
    await hide(headcount, A)
    await shows(headcount, g1=1, g2=0)
    assert await people(headcount, 1) == 1
    assert (await beat(headcount, A, "v", 1))["live"]  # their client is told nothing else
    await beat(headcount, A, "u", 1)
    await beat(headcount, C, "s", 2)
    await shows(headcount, g1=1, g2=1)
    await hide(headcount, A, hidden=False)
    await shows(headcount, g1=5, g2=1)
    assert await people(headcount, 1) == 2


async def test_sessions_of_a_deleted_user_leave_the_counts(headcount: World) -> None:
    await headcount.games(3)
    for user in (A, B):
        await beat(headcount, user, "s", 1)
    await shows(headcount, g1=2)
    await delete(headcount, A)
    await shows(headcount, g1=1)
    body = await headcount.post('mutation { heartbeat(sessionId: "t", gameId: 1) { live } }', user=A)
    assert body["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"


async def test_who_hides_is_never_counted_though_redis_lost_everything(headcount: World) -> None:
    await headcount.games(3)
    await beat(headcount, B, "s", 1)
    await hide(headcount, A)
    await delete(headcount, C)
    await headcount.drained()
    await shows(headcount, g1=1)
    redis = headcount.application.redis
    number = headcount.application.catalogue.game(1)
    assert number is not None
    seen: set[int] = set()

    async def counted() -> bool:
        """Clients go on beating; whatever is published meanwhile is noted, also what is too young to be shown."""
        await asyncio.gather(*(beat(headcount, user, "s", 1) for user in (A, B)))
        packed = await redis.call("HGET", TOTALS_KEYS[0], number.number)
        if packed is not None:
            seen.add(int.from_bytes(packed[:4], "little"))
        return packed is not None

    for _ in range(5):
        await redis.call("FLUSHALL")
        await until(counted)
    assert seen == {1}


async def test_who_hid_hides_again_after_a_redis_that_fell_back_to_before(headcount: World) -> None:
    await headcount.games(3)
    for user in (A, B, C):
        await beat(headcount, user, "s", 1)
    await hide(headcount, C)
    await headcount.drained()
    await shows(headcount, g1=2)
    redis = headcount.application.redis
    before = await RedisSnapshot.take(redis)
    await hide(headcount, A)
    await hide(headcount, C, hidden=False)
    await delete(headcount, B)
    await headcount.drained()
    await shows(headcount, g1=1)
    await before.restore(redis)
    number = headcount.application.catalogue.game(1)
    assert number is not None

    async def right_again() -> bool:
        live = LiveShards(redis, 60)
        reading = await live.read()
        counts: tuple[int, int] = tuple(live.counts.totals([number.number])[0, 1:].tolist())
        return not reading.not_loaded and counts == (1, 1)

    await until(right_again)
    # C it is who is counted, and nobody else.
    await hide(headcount, C)
    await shows(headcount, g1=0)
