from __future__ import annotations

from signals.redis import connect


async def test_commands_of_two_words_are_understood(redis_url: str) -> None:
    client = connect(redis_url, client_name="test-two-words")
    try:
        await client.xgroup_create("stream", "group", id="0", mkstream=True)
        assert [group["name"] for group in await client.xinfo_groups("stream")] == [b"group"]
        pipeline = client.pipeline(transaction=False)
        pipeline.xadd("stream", {"field": "two words"})
        pipeline.xinfo_stream("stream")
        _, described = await pipeline.execute()
        assert described["length"] == 1
        assert described["last-entry"][1] == {b"field": b"two words"}
    finally:
        await client.aclose()
