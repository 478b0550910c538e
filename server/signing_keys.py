"""Public keys that sign tokens elsewhere: a JWKS file or address, fetched off the event loop and held."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import orjson
import structlog

log = structlog.get_logger(__name__)

_REFRESH_SECONDS = 600.0
_RETRY_SECONDS = 30.0
_FETCH_TIMEOUT_SECONDS = 5.0
_MAX_JWKS_BYTES = 1 << 20
_MIN_RSA_BITS = 2048
#: The one algorithm of each kind of key. A token's header chooses a key, never an algorithm.
_ALGORITHMS = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}


class KeysUnavailableError(Exception):
    """No keys were ever read from where they should come."""


def read_file(path: Path) -> Callable[[], bytes]:
    """Read the keys from a file each time."""
    return path.read_bytes


def check_file(path: Path) -> None:
    """See whether a file holds keys, before tokens come that need them.

    Raises:
        ValueError: it cannot be read, or holds none; the text is one line.
    """
    try:
        parse_keys(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def fetch_url(url: str) -> Callable[[], bytes]:
    """Fetch the keys from an http or https address each time."""
    if not url.startswith(("https://", "http://")):
        raise ValueError("must be an http or https address")

    def fetch() -> bytes:
        request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310  # checked above
        with urllib.request.urlopen(request, timeout=_FETCH_TIMEOUT_SECONDS) as reply:  # noqa: S310  # likewise
            body: bytes = reply.read(_MAX_JWKS_BYTES)
        return body

    return fetch


class SigningKeys:
    """The keys of one JWKS document.

    Keys are read again after ten minutes, and where a token names one that is not among them (at most every 30
    seconds, however many such tokens come). While they cannot be read again, the last ones serve.

    Args:
        read: gives the document; may block, and is called in a thread.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, read: Callable[[], bytes], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._keys: list[jwt.PyJWK] = []
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._reading: asyncio.Task[None] | None = None

    async def find(self, key_id: str | None, algorithm: str) -> list[jwt.PyJWK]:
        """The keys that may have signed a token with this header; none where there is no such key.

        Raises:
            KeysUnavailableError: no keys could be read yet.
        """
        found = self._matching(key_id, algorithm)
        reading = self._refresh() if not found or self._older_than(_REFRESH_SECONDS, self._read_at) else None
        if not found and reading is not None:
            await asyncio.shield(reading)  # a caller that goes away must not stop it for the others
            found = self._matching(key_id, algorithm)
        if self._read_at is None:
            raise KeysUnavailableError
        return found

    def _matching(self, key_id: str | None, algorithm: str) -> list[jwt.PyJWK]:
        return [
            key
            for key in self._keys
            if key.algorithm_name == algorithm and (key_id is None or key.key_id in {None, key_id})
        ]

    def _older_than(self, seconds: float, moment: float | None) -> bool:
        return moment is None or self._clock() - moment >= seconds

    def _refresh(self) -> asyncio.Task[None] | None:
        """The reading under way, begun now unless one was tried a moment ago."""
        if self._reading is None and self._older_than(_RETRY_SECONDS, self._tried_at):
            self._tried_at = self._clock()
            self._reading = asyncio.create_task(self._read_now())
        return self._reading

    async def _read_now(self) -> None:
        try:
            self._keys = parse_keys(await asyncio.to_thread(self._read))
            self._read_at = self._clock()
        except Exception as error:
            log.warning("signing_keys_not_read", reason=f"{type(error).__name__}: {error}")
        finally:
            self._reading = None


def parse_keys(document: bytes) -> list[jwt.PyJWK]:
    """The keys of a JWKS document that sign with RS256, ES256 or EdDSA; others are left out.

    Raises:
        ValueError: it is no JWKS document, or holds no such key.
    """
    try:
        rows = orjson.loads(document)["keys"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise ValueError("not a JWKS document") from None
    if not isinstance(rows, list):
        raise ValueError("not a JWKS document")  # it is the document's value that is wrong
    keys = [key for row in rows if isinstance(row, dict) and (key := _key(row)) is not None]
    if not keys:
        raise ValueError("no key for RS256, ES256 or EdDSA")
    return keys


def _key(row: dict[str, Any]) -> jwt.PyJWK | None:
    kind = str(row.get("kty"))
    algorithm = _ALGORITHMS.get((kind, None if kind == "RSA" else str(row.get("crv"))))
    if algorithm is None or row.get("alg", algorithm) != algorithm or row.get("use", "sig") != "sig":
        return None
    public = {name: value for name, value in row.items() if name not in {"d", "p", "q", "dp", "dq", "qi"}}
    try:
        key = jwt.PyJWK(public, algorithm=algorithm)
    except jwt.exceptions.PyJWTError:
        return None
    if kind == "RSA" and key.key.key_size < _MIN_RSA_BITS:
        return None
    return key
