"""Dead letters: kept, listed, and written to the log again."""

from __future__ import annotations

import time

import pytest
import redis.asyncio

from events.dead_letters import DeadLetters
from events.event import Event
from events.redis_streams import Delivery, EventLog

EVENT = Event(3, "edge", 7, 9)


async def read_all(log: EventLog, number: int) -> list[Delivery]:
    partition = log.partition(number, "reader")
    return await partition.read(1_000, 1) or await partition.read(1_000, 1)


async def test_a_dead_letter_says_what_failed_when_and_why(client: redis.asyncio.Redis) -> None:
    letters = DeadLetters(client)
    await letters.set_aside(EVENT.partition, Delivery("1-1", EVENT.encode()), "ValueError: ä" + "x" * 5_000, 5)
    (letter,) = await letters.list()
    assert letter.event == EVENT
    assert letter.error.startswith("ValueError: ä")
    assert len(letter.error) == 1_000
    assert letter.attempts == 5
    assert letter.partition == EVENT.partition
    assert abs(letter.at - time.time()) < 60
    assert await letters.count() == 1


async def test_the_oldest_are_listed_first_up_to_the_limit(client: redis.asyncio.Redis) -> None:
    letters = DeadLetters(client)
    for i in range(1, 6):
        await letters.set_aside(0, Delivery("1-1", Event(i, "log", 7).encode()), "why", 5)
    assert [letter.event.id for letter in await letters.list(3) if letter.event] == [1, 2, 3]


async def test_replay_writes_to_the_log_again_and_deletes(client: redis.asyncio.Redis) -> None:
    log, letters = EventLog(client), DeadLetters(client)
    for i in range(1, 4):
        event = Event(i, "log", 7)
        await letters.set_aside(event.partition, Delivery("1-1", event.encode()), "why", 5)
    first, second, third = [letter.id for letter in await letters.list()]
    assert await letters.replay([second, "1-1"]) == 1
    assert [letter.id for letter in await letters.list()] == [first, third]
    number = Event(1, "log", 7).partition
    assert [Event.decode(delivery.data).id for delivery in await read_all(log, number)] == [2]
    assert await letters.replay() == 2
    assert await letters.count() == 0
    assert [Event.decode(delivery.data).id for delivery in await read_all(log, number)] == [1, 3]
    assert await letters.replay() == 0


async def test_replaying_all_takes_more_than_one_batch(client: redis.asyncio.Redis) -> None:
    letters = DeadLetters(client)
    for i in range(1, 1_102):
        await letters.set_aside(2, Delivery("1-1", Event(i, "log", 7).encode()), "why", 5)
    assert await letters.replay() == 1_101
    assert len(await read_all(EventLog(client), 2)) == 1_000


async def test_what_this_program_cannot_read_goes_back_where_it_was(client: redis.asyncio.Redis) -> None:
    letters = DeadLetters(client)
    await letters.set_aside(3, Delivery("1-1", b'["of a newer program"]'), "ValueError: six fields", 1)
    (letter,) = await letters.list()
    assert letter.event is None
    assert letter.data == b'["of a newer program"]'
    await letters.replay([letter.id])
    assert [delivery.data for delivery in await read_all(EventLog(client), 3)] == [letter.data]


@pytest.mark.parametrize("wrong", ["", "7", "all", "1-1-1", "-", "+", "1-1\n", "9" * 30 + "-1"])
async def test_an_id_that_is_none_is_refused(client: redis.asyncio.Redis, wrong: str) -> None:
    with pytest.raises(ValueError, match="not the id of a dead letter"):
        await DeadLetters(client).replay([wrong])
