"""Who asks: JSON Web Tokens, verified and, with a secret of our own, signed."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import secrets
import stat
import time
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jwt

from resolvers.errors import BadInput, Unauthenticated, Unavailable
from resolvers.identifiers import parse_id
from server.caches import SegmentedCache
from server.signing_keys import KeysUnavailableError, SigningKeys, fetch_url, read_file
from settings import Settings, SettingsError

SCOPES = frozenset({"friendships:write", "users:write", "catalog:write", "runs:write", "admin"})
LEEWAY_SECONDS = 30.0

_SECRET_FILE = "jwt_secret"  # noqa: S105  # its name
_MIN_SECRET_BYTES = 32
_MAX_TOKEN_CHARACTERS = 8_192
_HELD_TOKENS = 10_000
#: A verified token is taken without another look for this long, so a key that is withdrawn counts soon.
_HELD_SECONDS = 60.0
_BAD = "The token is not valid."
_EXPIRED = "The token has expired."
_DELETED = "The user of this token was deleted."


@dataclass(frozen=True, slots=True)
class Principal:
    """The user of a token. `expires_at` is when it is no longer taken, leeway included, in Unix seconds."""

    user_id: int
    scopes: frozenset[str]
    expires_at: float


class _Held(NamedTuple):
    principal: Principal
    until: float


class Tokens:
    """Verifies tokens.

    A key's kind decides the algorithm: the secret HS256, a public key RS256, ES256 or EdDSA. Nothing here ever puts a
    token or a key into a text.

    Args:
        secret: for HS256; None takes none.
        keys: for the others; None takes none.
        issuer: required `iss`; None takes any.
        audience: required `aud`; None takes any.
        leeway_seconds: by how much clocks may differ.
        clock: Unix seconds.
    """

    def __init__(
        self,
        *,
        secret: bytes | None = None,
        keys: SigningKeys | None = None,
        issuer: str | None = None,
        audience: str | None = None,
        leeway_seconds: float = LEEWAY_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = secret
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._leeway = leeway_seconds
        self._clock = clock
        self._held: SegmentedCache[bytes, _Held] = SegmentedCache(_HELD_TOKENS)
        self._deleted: Container[int] = frozenset()
        self.verified = 0

    @property
    def can_sign(self) -> bool:
        """Whether there is a secret to sign with."""
        return self._secret is not None

    @property
    def clock(self) -> Callable[[], float]:
        """The clock that tokens expire by, Unix seconds."""
        return self._clock

    def refuse_users(self, deleted: Container[int]) -> None:
        """Take no token of these users any more; `deleted` may grow later."""
        self._deleted = deleted

    def check_user(self, principal: Principal) -> None:
        """See that the user of a token that was verified before is still there. Raises Unauthenticated."""
        if principal.user_id in self._deleted:
            raise Unauthenticated(_DELETED)

    async def verify(self, token: str) -> Principal:
        """The user of a token.

        Raises:
            Unauthenticated: it is malformed, signed by nobody we know, not for us, not valid yet, or expired, or its
                user was deleted.
            Unavailable: the keys that could tell cannot be read (signal "signingKeys").
        """
        now = self._clock()
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        held = self._held.get(digest)
        if held is not None and now < held.until:
            self.check_user(held.principal)
            return held.principal
        principal = self._principal(await self._claims(token), now)
        self.verified += 1
        self._held.put(digest, _Held(principal, min(now + _HELD_SECONDS, principal.expires_at)))
        self.check_user(principal)
        return principal

    async def verify_header(self, authorization: str) -> Principal:
        """The user of an `Authorization` header. Raises what `verify` raises."""
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated("The Authorization header must be `Bearer` and a token.")
        return await self.verify(token.strip())

    def sign(self, user_id: int, scopes: Collection[str], expires_seconds: float) -> str:
        """A token for a user, good for `expires_seconds` from now.

        Raises:
            ValueError: there is no secret, or a scope is unknown.
        """
        if self._secret is None:
            raise ValueError("tokens are signed elsewhere: this server has only public keys")
        if unknown := sorted(set(scopes) - SCOPES):
            raise ValueError(f"unknown scope {unknown[0]!r}; known are {', '.join(sorted(SCOPES))}")
        now = self._clock()
        claims: dict[str, Any] = {"sub": str(user_id), "iat": int(now), "exp": math.ceil(now + expires_seconds)}
        if scopes:
            claims["scope"] = " ".join(sorted(scopes))
        if self._issuer is not None:
            claims["iss"] = self._issuer
        if self._audience is not None:
            claims["aud"] = self._audience
        return jwt.encode(claims, self._secret, algorithm="HS256")

    async def _claims(self, token: str) -> dict[str, Any]:
        """The claims of a token whose signature, issuer and audience are good."""
        if len(token) > _MAX_TOKEN_CHARACTERS:
            raise Unauthenticated(_BAD)
        try:
            header = jwt.get_unverified_header(token)
            for key, algorithm in await self._keys_for(header):
                try:
                    claims: dict[str, Any] = jwt.decode(
                        token,
                        key,
                        algorithms=[algorithm],
                        issuer=self._issuer,
                        audience=self._audience,
                        # Times are checked here, by the clock that was handed in.
                        options={
                            "require": ["sub", "exp"],
                            "verify_exp": False,
                            "verify_nbf": False,
                            "verify_iat": False,
                            "verify_aud": self._audience is not None,
                        },
                    )
                except jwt.InvalidSignatureError:
                    continue
                return claims
        except KeysUnavailableError:
            raise Unavailable("signingKeys") from None
        except (jwt.exceptions.PyJWTError, ValueError, TypeError, KeyError, RecursionError):
            pass  # whatever it was, it is no token of ours; what it holds must not reach an error text
        raise Unauthenticated(_BAD)

    async def _keys_for(self, header: dict[str, Any]) -> list[tuple[bytes | jwt.PyJWK, str]]:
        """The keys that may have signed a token, each with the one algorithm it signs with."""
        algorithm = header.get("alg")
        if algorithm == "HS256" and self._secret is not None:
            return [(self._secret, "HS256")]
        if algorithm in {"RS256", "ES256", "EdDSA"} and self._keys is not None:
            found = await self._keys.find(header.get("kid"), algorithm)
            return [(key, key.algorithm_name) for key in found]
        return []

    def _principal(self, claims: dict[str, Any], now: float) -> Principal:
        expires_at = _seconds(claims["exp"]) + self._leeway
        if now >= expires_at:
            raise Unauthenticated(_EXPIRED)
        if "nbf" in claims and now < _seconds(claims["nbf"]) - self._leeway:
            raise Unauthenticated("The token is not valid yet.")
        scope = claims.get("scope", "")
        if not isinstance(scope, str):
            raise Unauthenticated(_BAD)
        try:
            user_id = parse_id(claims["sub"], "sub")
        except BadInput:
            raise Unauthenticated("The token's `sub` is not the id of a user.") from None
        return Principal(user_id, frozenset(scope.split()), expires_at)


def make_tokens(settings: Settings, *, loopback: bool) -> Tokens:
    """The tokens that the settings ask for.

    With keys of others and no secret set, only their tokens are good. With neither, and bound to loopback, a secret is
    made once and kept in the data folder.

    Raises:
        SettingsError: one line that names the setting.
    """
    keys: SigningKeys | None = None
    if settings.jwks_url is not None:
        try:
            keys = SigningKeys(fetch_url(settings.jwks_url))
        except ValueError as error:
            raise SettingsError(f"HEADCOUNT_JWKS_URL: {error}") from None
    elif settings.jwks_file is not None:
        keys = SigningKeys(read_file(settings.jwks_file))
    secret: bytes | None = None
    if settings.jwt_secret is not None:
        secret = settings.jwt_secret.get_secret_value().encode()
    elif keys is None:
        if not loopback:
            raise SettingsError(
                "HEADCOUNT_JWT_SECRET: required where --host is not loopback, "
                "or HEADCOUNT_JWKS_URL or HEADCOUNT_JWKS_FILE instead"
            )
        secret = kept_secret(settings.data_dir)
    return Tokens(secret=secret, keys=keys, issuer=settings.jwt_issuer, audience=settings.jwt_audience)


def kept_secret(data_dir: Path) -> bytes:
    """The secret in the data folder, made where there is none yet.

    Raises:
        SettingsError: it cannot be read or written, is too short, or others may read it.
    """
    path = data_dir / _SECRET_FILE
    try:
        if not path.exists():
            _make_secret(path)
        mode = stat.S_IMODE(path.stat().st_mode)
        secret = path.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"HEADCOUNT_JWT_SECRET: {path}: {error.strerror}") from None
    if mode & 0o077:
        raise SettingsError(f"HEADCOUNT_JWT_SECRET: {path} can be read by others (mode {mode:o}); chmod 600 it")
    if len(secret) < _MIN_SECRET_BYTES:
        raise SettingsError(f"HEADCOUNT_JWT_SECRET: {path} holds fewer than {_MIN_SECRET_BYTES} bytes; remove it")
    return secret


def _make_secret(path: Path) -> None:
    """Write a new secret whole or not at all; of two processes that do it at once, the first one's stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def _seconds(value: object) -> float:
    """A NumericDate of a claim."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthenticated(_BAD)
    try:
        seconds = float(value)
    except OverflowError:
        raise Unauthenticated(_BAD) from None
    if not math.isfinite(seconds):
        raise Unauthenticated(_BAD)
    return seconds
