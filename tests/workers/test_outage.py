"""Which failures hold a partition, and which count against an event."""

from __future__ import annotations

import pytest
import redis.asyncio
import redis.exceptions

from graph.social_graph import TruthUnavailableError, UnknownGameError, UserDeletedError
from signals.redis import connect
from workers.outage import LONGEST_PAUSE_SECONDS, is_outage, pause_seconds


@pytest.mark.parametrize(
    "error",
    [
        TruthUnavailableError("database is locked"),
        ConnectionRefusedError(),
        TimeoutError(),
        redis.exceptions.ConnectionError("Connection refused"),
        redis.exceptions.TimeoutError("Timeout reading from socket"),
        redis.exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
        redis.exceptions.ReadOnlyError("You can't write against a read only replica."),
        redis.exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        redis.exceptions.ClusterDownError("CLUSTERDOWN Hash slot not served"),
        redis.exceptions.TryAgainError("Multiple keys request during rehashing of slot"),
        redis.exceptions.ResponseError("MISCONF Errors writing to the AOF file: No space left on device"),
        redis.exceptions.ResponseError("BUSY Redis is busy running a script."),
        redis.exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."),
    ],
)
def test_a_store_that_is_away(error: Exception) -> None:
    assert is_outage(error)


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError(),
        KeyError(7),
        ValueError("not an event"),
        UnknownGameError(7),
        UserDeletedError(7),
        redis.exceptions.ResponseError("ERR user_script:3: attempt to compare nil with number"),
        redis.exceptions.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
        redis.exceptions.ResponseError("BUSYGROUP Consumer Group name already exists"),
        redis.exceptions.NoPermissionError("this user has no permissions to run the 'xadd' command"),
    ],
)
def test_a_failure_of_what_was_asked(error: Exception) -> None:
    assert not is_outage(error)


async def test_a_reply_is_known_in_a_pipeline_too(redis_url: str) -> None:
    client = connect(redis_url, client_name="test")
    try:
        for reply, expected in (("MISCONF disk", True), ("READONLY replica", True), ("ERR a bug", False)):
            pipeline = client.pipeline(transaction=False)
            pipeline.eval("return redis.error_reply(ARGV[1])", 0, reply)
            with pytest.raises(redis.exceptions.ResponseError) as caught:
                await pipeline.execute()
            assert is_outage(caught.value) is expected
    finally:
        await client.aclose()


def test_pauses_double_up_to_the_longest() -> None:
    pauses = [pause_seconds(failures) for failures in (1, 2, 3, 100, 10_000)]
    assert pauses == [0.05, 0.1, 0.2, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]
