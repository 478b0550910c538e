from __future__ import annotations

from datetime import datetime
from typing import Any

import httpx
import pytest

from server.dev_tokens import DevTokens
from server.signing_keys import SigningKeys
from server.tokens import Tokens
from tests.server.conftest import NOW, SECRET, Clock


def _client(tokens: Tokens, peer: str = "127.0.0.1", host: str = "localhost:8000") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(DevTokens(tokens), client=(peer, 40_000))
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}")


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(secret=SECRET, clock=Clock())


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost:8000", "localhost", "127.0.0.1:1", "[::1]:8000", "LOCALHOST:8000"])
async def test_a_page_on_this_machine_gets_a_token_of_any_user(tokens: Tokens, peer: str, host: str) -> None:
    async with _client(tokens, peer, host) as client:
        response = await client.get("/dev/token?user=42", headers={"Sec-Fetch-Site": "same-origin"})
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert not [name for name in response.headers if name.startswith("access-control")]
    principal = await tokens.verify(response.json()["token"])
    assert (principal.user_id, principal.scopes) == (42, frozenset())
    assert datetime.fromisoformat(response.json()["expiresAt"]).timestamp() == NOW + 3600


async def test_scopes_can_be_asked_for(tokens: Tokens) -> None:
    async with _client(tokens) as client:
        token = (await client.get("/dev/token?user=1&scope=friendships:write%20catalog:write")).json()["token"]
        assert (await tokens.verify(token)).scopes == {"friendships:write", "catalog:write"}
        assert (await client.get("/dev/token?user=1&scope=root")).status_code == 422


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-Host": "localhost"},
        {"X-Forwarded-Proto": "https"},
        {"Forwarded": "for=127.0.0.1"},
        {"Via": "1.1 proxy"},
        {"X-Real-IP": "127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:9999"},
        {"Origin": "null"},
    ],
)
async def test_past_a_proxy_or_from_another_page_it_does_not_exist(tokens: Tokens, headers: dict[str, str]) -> None:
    async with _client(tokens) as client:
        response = await client.get("/dev/token?user=42", headers=headers)
    assert response.status_code == 404
    assert "token" not in response.text


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("10.0.0.5", "localhost:8000"),
        ("::ffff:10.0.0.5", "localhost"),
        ("", "localhost"),
        ("127.0.0.1", "evil.example:8000"),
        ("127.0.0.1", "localhost.evil.example"),
        ("127.0.0.1", "127.0.0.1.evil.example"),
        ("127.0.0.1", "192.168.0.2:8000"),
    ],
)
async def test_another_peer_or_another_name_of_this_host_finds_nothing(tokens: Tokens, peer: str, host: str) -> None:
    async with _client(tokens, peer, host) as client:
        assert (await client.get("/dev/token?user=42")).status_code == 404


@pytest.mark.parametrize(
    "host", [None, b"", b"user@localhost", b"localhost:x", b"localhost/evil", b"[::1", b"localhost, evil"]
)
async def test_a_host_header_that_is_missing_or_strange_finds_nothing(tokens: Tokens, host: bytes | None) -> None:
    assert await _status(tokens, [] if host is None else [(b"host", host)]) == 404
    assert await _status(tokens, [(b"host", b"evil.example"), (b"host", b"localhost")]) == 404


async def _status(tokens: Tokens, headers: list[tuple[bytes, bytes]]) -> int:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("there is no body to read")

    scope = {"type": "http", "method": "GET", "query_string": b"user=1", "headers": headers, "client": ("127.0.0.1", 1)}
    await DevTokens(tokens)(scope, receive, send)
    status: int = sent[0]["status"]
    return status


@pytest.mark.parametrize("query", ["", "user=", "user=0", "user=-1", "user=x", "user=9223372036854775808"])
async def test_a_user_that_cannot_be_is_422(tokens: Tokens, query: str) -> None:
    async with _client(tokens) as client:
        response = await client.get(f"/dev/token?{query}")
    assert response.status_code == 422
    assert response.json()["errors"][0]["extensions"] == {"code": "BAD_INPUT", "argument": "user"}


async def test_other_methods_and_a_server_that_cannot_sign_find_nothing(tokens: Tokens) -> None:
    async with _client(tokens) as client:
        assert (await client.post("/dev/token?user=1")).status_code == 404
    async with _client(Tokens(keys=SigningKeys(lambda: b""))) as client:
        assert (await client.get("/dev/token?user=1")).status_code == 404
