from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from server.limits import Limits
from tests.served import Serve, Served
from tests.server.conftest import Edge, MakeEdge
from tests.server.small_schema import CANNOT_RUN
from tests.waiting import until

PROTOCOL = Subprotocol("graphql-transport-ws")


class Socket:
    """A client that speaks the protocol word by word."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def tell(self, message: Any) -> None:
        await self.connection.send(json.dumps(message))

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(10):
            text = await self.connection.recv()
        assert isinstance(text, str), "a binary frame, which browsers' clients do not take"
        heard: dict[str, Any] = json.loads(text)
        return heard

    async def start(self, payload: Any = None) -> None:
        await self.tell({"type": "connection_init", **({} if payload is None else {"payload": payload})})
        assert await self.hear() == {"type": "connection_ack"}

    async def subscribe(self, id_: str, query: str, **rest: Any) -> None:
        await self.tell({"id": id_, "type": "subscribe", "payload": {"query": query, **rest}})

    async def closed(self) -> int:
        """The code it was closed with."""
        async with asyncio.timeout(10):
            while True:
                try:
                    await self.connection.recv()
                except ConnectionClosed as closed:
                    return closed.rcvd.code if closed.rcvd is not None else 1006


@asynccontextmanager
async def opened(served: Served, **options: Any) -> AsyncIterator[Socket]:
    async with connect(served.url("ws"), subprotocols=[PROTOCOL], **options) as connection:
        yield Socket(connection)


@pytest.fixture
async def served(edge: Edge, serve: Serve) -> Served:
    return await serve(edge.app)


async def test_a_subscription_gives_its_events_and_completes(served: Served) -> None:
    async with opened(served) as socket:
        await socket.start()
        await socket.subscribe("1", "subscription Count($to: Int!) { count(to: $to) }", variables={"to": 3})
        for number in (1, 2, 3):
            assert await socket.hear() == {"id": "1", "type": "next", "payload": {"data": {"count": number}}}
        assert await socket.hear() == {"id": "1", "type": "complete"}


async def test_queries_and_mutations_run_too_and_an_id_can_be_used_again(served: Served, edge: Edge) -> None:
    async with opened(served) as socket:
        await socket.start(edge.bearer(7))
        for _ in range(2):
            await socket.subscribe("q", "{ viewer }")
            assert (await socket.hear())["payload"] == {"data": {"viewer": "7"}}
            assert await socket.hear() == {"id": "q", "type": "complete"}
        await socket.subscribe("m", 'mutation { recordPlay(gameId: "1") }')
        assert (await socket.hear())["payload"] == {"data": {"recordPlay": True}}


@pytest.mark.parametrize(("query", "extensions"), CANNOT_RUN)
async def test_an_operation_that_cannot_run_ends_with_an_error_and_the_socket_stays(
    served: Served, query: str, extensions: dict[str, Any]
) -> None:
    async with opened(served) as socket:
        await socket.start()
        await socket.subscribe("1", query)
        error = await socket.hear()
        assert (error["id"], error["type"]) == ("1", "error")
        assert [each["extensions"] for each in error["payload"]] == [extensions]
        await socket.subscribe("1", "{ first }")
        assert (await socket.hear())["type"] == "next"


async def test_a_fault_in_the_middle_of_a_subscription_is_masked_and_ends_it(
    served: Served, lines: list[dict[str, Any]]
) -> None:
    async with opened(served, additional_headers={"X-Request-Id": "sock"}) as socket:
        await socket.start()
        await socket.subscribe("1", "subscription { faulty }")
        assert (await socket.hear())["type"] == "next"
        assert await socket.hear() == {
            "id": "1",
            "type": "error",
            "payload": [{"message": "Internal error", "extensions": {"code": "INTERNAL", "requestId": "sock-1"}}],
        }
    assert [line["request_id"] for line in lines if line["log_level"] == "error"] == ["sock-1"]


async def test_each_operation_and_each_event_has_a_context_of_its_own(served: Served, edge: Edge) -> None:
    async with opened(served) as socket:
        await socket.start()
        for id_ in ("1", "2"):
            await socket.subscribe(id_, "subscription { eachContext(times: 3) { requestId } }")
        completed = 0
        while completed < 2:
            completed += (await socket.hear())["type"] == "complete"
    contexts = edge.store.contexts
    assert len(contexts) == 8
    assert len({id(context) for context in contexts}) == 8
    assert len({context.request_id for context in contexts}) == 2


async def test_the_eleventh_operation_is_refused_and_the_socket_stays(served: Served, edge: Edge) -> None:
    async with opened(served) as socket:
        await socket.start()
        for number in range(10):
            await socket.subscribe(str(number), "subscription { waiting { name } }")
            assert (await socket.hear())["type"] == "next"
        await socket.subscribe("10", "subscription { waiting { name } }")
        error = await socket.hear()
        assert (error["id"], error["type"]) == ("10", "error")
        assert error["payload"][0]["extensions"] == {"code": "LIMIT_EXCEEDED", "limit": 10, "actual": 11}
        assert (edge.app.sockets.running, edge.store.subscribers) == (10, 10)
        await socket.tell({"id": "3", "type": "complete"})
        await until(lambda: edge.store.subscribers == 9)
        await socket.subscribe("10", "subscription { waiting { name } }")
        assert (await socket.hear())["type"] == "next"


async def test_when_the_socket_dies_nothing_of_it_is_left(served: Served, edge: Edge) -> None:
    async with opened(served) as staying, opened(served) as socket:
        for each in (staying, socket):
            await each.start()
            await each.subscribe("1", "subscription { waiting { name } }")
            await each.hear()
        assert (edge.store.subscribers, len(edge.app.sockets.open)) == (2, 2)
        socket.connection.transport.abort()
        await until(lambda: edge.store.subscribers == 1)
        await until(lambda: len(edge.app.sockets.open) == 1)
        assert edge.app.sockets.running == 1
        edge.store.gate.set()
        assert (await staying.hear())["payload"]["data"]["waiting"]["name"] == "after"


# Who


@pytest.mark.parametrize(
    "payload",
    [
        {"Authorization": "Bearer nonsense"},
        {"authorization": "Bearer nonsense"},
        {"Authorization": ""},
        {"Authorization": 7},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer a", "authorization": "Bearer b"},
    ],
)
async def test_a_bad_token_closes_with_4403(served: Served, payload: Any) -> None:
    async with opened(served) as socket:
        await socket.tell({"type": "connection_init", "payload": payload})
        assert await socket.closed() == 4403


async def test_an_expired_token_closes_with_4403(served: Served, edge: Edge) -> None:
    async with opened(served) as socket:
        await socket.tell({"type": "connection_init", "payload": edge.bearer(7, seconds=-31)})
        assert await socket.closed() == 4403


async def test_a_token_that_expires_meanwhile_closes_with_4403_and_ends_the_subscriptions(
    served: Served, edge: Edge
) -> None:
    headers = edge.bearer(7, seconds=100)
    edge.clock.now += 129.9  # a tenth of a second before the end of the leeway
    async with opened(served) as socket:
        await socket.start(headers)
        await socket.subscribe("1", "subscription { waiting { name } }")
        await socket.hear()
        assert await socket.closed() == 4403
    await until(lambda: edge.store.subscribers == 0)


async def test_a_token_that_lives_for_centuries_is_fine(served: Served, edge: Edge) -> None:
    async with opened(served) as socket:
        await socket.start(edge.bearer(7, seconds=1e12))
        await socket.subscribe("1", "{ viewer }")
        assert (await socket.hear())["payload"] == {"data": {"viewer": "7"}}


@pytest.mark.parametrize("payload", [None, {}, {"Authorization": None}, {"other": 1}])
async def test_no_token_is_nobody(served: Served, payload: Any) -> None:
    async with opened(served) as socket:
        await socket.start(payload)
        await socket.subscribe("1", "{ viewer }")
        assert (await socket.hear())["payload"] == {"data": {"viewer": None}}


async def test_a_user_who_is_deleted_meanwhile_is_closed_with_4403_and_cannot_come_back(
    served: Served, edge: Edge
) -> None:
    deleted: set[int] = set()
    edge.tokens.refuse_users(deleted)
    async with opened(served) as theirs, opened(served) as others, opened(served) as nobodys:
        for socket, headers in ((theirs, edge.bearer(7)), (others, edge.bearer(8)), (nobodys, None)):
            await socket.start(headers)
            await socket.subscribe("1", "subscription { waiting { name } }")
            await socket.hear()
        deleted.add(7)
        edge.app.sockets.close_deleted()
        assert await theirs.closed() == 4403
        for socket in (others, nobodys):
            await socket.subscribe("2", "{ viewer }")
            assert (await socket.hear())["type"] == "next"
    async with opened(served) as socket:
        await socket.tell({"type": "connection_init", "payload": edge.bearer(7)})
        assert await socket.closed() == 4403


async def test_the_handshake_s_token_counts_where_the_init_has_none_and_a_bad_one_is_not_nobody(
    served: Served, edge: Edge
) -> None:
    async with opened(served, additional_headers=edge.bearer(9)) as socket:
        await socket.start()
        await socket.subscribe("1", "{ viewer }")
        assert (await socket.hear())["payload"] == {"data": {"viewer": "9"}}
    async with opened(served, additional_headers={"Authorization": "Bearer x"}) as socket:
        await socket.tell({"type": "connection_init"})
        assert await socket.closed() == 4403


async def test_without_init_it_closes_with_4408(make_edge: MakeEdge, serve: Serve) -> None:
    served = await serve(make_edge(Limits(init_seconds=0.05)).app)
    async with opened(served) as socket:
        assert await socket.closed() == 4408


async def test_the_twenty_first_socket_of_a_user_is_closed_with_4429_and_says_why(
    make_edge: MakeEdge, serve: Serve
) -> None:
    edge = make_edge(Limits(connections_a_user=2))
    served = await serve(edge.app)
    async with opened(served) as first, opened(served) as second, opened(served) as third, opened(served) as others:
        for socket in (first, second):
            await socket.start(edge.bearer(7))
        await third.tell({"type": "connection_init", "payload": edge.bearer(7)})
        assert await third.closed() == 4429
        assert third.connection.close_reason == "open sockets and event streams of one user: 3 is over the limit of 2"
        await others.start(edge.bearer(8))
        async with opened(served) as nobodys:
            await nobodys.start()
        first.connection.transport.abort()
        await until(lambda: len(edge.app.sockets.open) == 2)
        async with opened(served) as again:
            await again.start(edge.bearer(7))
    await until(lambda: edge.app.connections.users == 0)


# The end


async def test_a_drain_closes_all_with_1012_and_loses_no_reply(
    served: Served, edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer, run = asyncio.Event(), asyncio.Event(), edge.app.operations.run

    async def slow_run(ask: Any) -> Any:
        asked.set()
        await answer.wait()
        return await run(ask)

    monkeypatch.setattr(edge.app.operations, "run", slow_run)
    async with opened(served) as idle, opened(served) as watching, opened(served) as waiting, opened(served) as new:
        for socket in (idle, watching, waiting):
            await socket.start()
        await watching.subscribe("1", "subscription { waiting { name } }")
        await watching.hear()
        await waiting.subscribe("1", "{ first }")
        await asked.wait()
        draining = asyncio.create_task(edge.app.drain(0.05))
        for socket in (idle, watching, new):
            assert await socket.closed() == 1012
        answer.set()
        assert (await waiting.hear())["payload"] == {"data": {"first": 30}}
        assert await waiting.closed() == 1012
        await draining
    await until(lambda: not edge.app.sockets.open)
    assert (edge.app.sockets.running, edge.store.subscribers) == (0, 0)


async def test_a_drain_is_spread(served: Served, edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    spread: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        spread.append((low, high))
        return 0.0

    monkeypatch.setattr("random.uniform", uniform)
    async with opened(served) as first, opened(served) as second:
        await edge.app.drain(2.0)
        assert [await first.closed(), await second.closed()] == [1012, 1012]
    assert spread == [(0, 2.0)] * 2


# The protocol


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([{"type": "subscribe", "id": "1", "payload": {"query": "{ first }"}}], 4401),
        ([{"type": "connection_init"}, {"type": "connection_init"}], 4429),
        ([{"type": "connection_init", "payload": []}], 4400),
        ([{"type": "nonsense"}], 4400),
        ([{"type": 7}], 4400),
        ([{}], 4400),
        ([[]], 4400),
        ([None], 4400),
        ([{"type": "connection_init"}, {"type": "subscribe", "payload": {"query": "{ first }"}}], 4400),
        ([{"type": "connection_init"}, {"type": "subscribe", "id": 1, "payload": {"query": "{ first }"}}], 4400),
        ([{"type": "connection_init"}, {"type": "subscribe", "id": "1"}], 4400),
        ([{"type": "connection_init"}, {"type": "subscribe", "id": "1", "payload": {"query": 1}}], 4400),
        ([{"type": "connection_init"}, {"type": "complete"}], 4400),
        (
            [
                {"type": "connection_init"},
                {"type": "subscribe", "id": "1", "payload": {"query": "subscription { waiting { name } }"}},
                {"type": "subscribe", "id": "1", "payload": {"query": "subscription { waiting { name } }"}},
            ],
            4409,
        ),
    ],
)
async def test_what_breaks_the_protocol_closes_with_its_code(served: Served, messages: list[Any], code: int) -> None:
    async with opened(served) as socket:
        for message in messages:
            await socket.tell(message)
        assert await socket.closed() == code


@pytest.mark.parametrize("frame", ["{", "", b'{"type": "connection_init"}'])
async def test_what_is_no_json_text_closes_with_4400(served: Served, frame: str | bytes) -> None:
    async with opened(served) as socket:
        await socket.connection.send(frame)
        assert await socket.closed() == 4400


async def test_a_message_that_is_too_long_closes_with_1009(make_edge: MakeEdge, serve: Serve) -> None:
    for edge in (make_edge(), make_edge(Limits(body_bytes=1_000))):
        served = await serve(edge.app)
        async with opened(served) as socket:
            await socket.connection.send(" " * (edge.app.limits.body_bytes + 1))
            assert await socket.closed() == 1009


async def test_ping_is_answered_also_before_the_init(served: Served) -> None:
    async with opened(served) as socket:
        await socket.tell({"type": "ping"})
        assert await socket.hear() == {"type": "pong"}
        await socket.tell({"type": "pong"})
        await socket.start()


@pytest.mark.parametrize("protocols", [None, ["graphql-ws"], ["nonsense"]])
async def test_other_subprotocols_close_with_4406(served: Served, protocols: Any) -> None:
    async with connect(served.url("ws"), subprotocols=protocols) as connection:
        assert await Socket(connection).closed() == 4406


async def test_pages_of_other_hosts_are_refused_unless_listed(make_edge: MakeEdge, serve: Serve) -> None:
    closed = await serve(make_edge().app)
    listed = await serve(make_edge(allowed_origins=["https://play.example"]).app)
    for served, origin, allowed in [
        (closed, f"http://127.0.0.1:{closed.port}", True),
        (closed, f"http://127.0.0.1:{closed.port + 1}", False),
        (closed, "https://play.example", False),
        (closed, "null", False),
        (listed, "https://play.example", True),
        (listed, "https://play.example.evil.example", False),
        (listed, "http://play.example", False),
    ]:
        if allowed:
            async with opened(served, origin=origin) as socket:
                await socket.start()
        else:
            with pytest.raises(InvalidStatus) as refused:
                async with opened(served, origin=origin):
                    pass
            assert refused.value.response.status_code == 403


async def test_a_slow_reader_of_a_busy_source_holds_up_only_itself(served: Served) -> None:
    async with opened(served) as slow, opened(served) as quick:
        for socket in (slow, quick):
            await socket.start()
        await slow.subscribe("1", "subscription { count(to: 10000000) }")  # and reads none of it
        await quick.subscribe("1", "subscription { count(to: 50) }")
        for number in range(1, 51):
            assert (await quick.hear())["payload"] == {"data": {"count": number}}
        slow.connection.transport.abort()


# The rest of a real server


async def test_a_real_client_that_sends_ten_megabytes_reads_the_refusal(served: Served, edge: Edge) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(160):
            yield b" " * 65_536

    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient() as client:
        for content in (b" " * 10_485_760, endless()):
            response = await client.post(served.url("http"), content=content, headers=headers, timeout=20)
            assert response.status_code == 413
            assert response.json()["errors"][0]["extensions"]["code"] == "LIMIT_EXCEEDED"
        assert (await client.post(served.url("http"), json={"query": "{ first }"})).status_code == 200
    assert edge.store.asked == 0
