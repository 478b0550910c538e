from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from pydantic import SecretStr

from resolvers.errors import Unauthenticated, Unavailable
from server.signing_keys import SigningKeys, parse_keys
from server.tokens import Tokens, kept_secret, make_tokens
from settings import Settings, SettingsError
from tests.server.conftest import NOW, SECRET, Clock, Edge, MakeEdge, only_error

OTHER_SECRET = SECRET[::-1]


def _claims(**changes: Any) -> dict[str, Any]:
    claims = {"sub": "42", "exp": int(NOW) + 60, **changes}
    return {name: value for name, value in claims.items() if value is not None}


def _signed(secret: bytes = SECRET, algorithm: str = "HS256", **changes: Any) -> str:
    return jwt.encode(_claims(**changes), secret, algorithm=algorithm)


def _forged(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


BAD: dict[str, str] = {
    "empty": "",
    "text": "nonsense",
    "three parts of nothing": "..",
    "not base64": "a.b.c",
    "wrong key": _signed(OTHER_SECRET),
    "unsigned": _forged({"alg": "none", "typ": "JWT"}, _claims()),
    "unsigned, another spelling": _forged({"alg": "NoNe"}, _claims()),
    "no algorithm": _forged({"typ": "JWT"}, _claims()),
    "another of its family": _signed(algorithm="HS512"),
    "algorithm is no text": _forged({"alg": ["HS256"]}, _claims()),
    "a public algorithm without keys": _forged({"alg": "RS256"}, _claims(), b"x" * 256),
    "signature cut": _signed()[:-4],
    "claims changed": ".".join([_signed().split(".")[0], _forged({}, _claims(sub="1")).split(".")[1], "x"]),
    "expired": _signed(exp=int(NOW) - 31),
    "no expiry": _signed(exp=None),
    "expiry is a text": _signed(exp="soon"),
    "expiry is true": _signed(exp=True),
    "expiry is no number": _signed(exp=float("nan")),
    "expiry is never": _signed(exp=float("inf")),
    "expiry has 400 digits": _signed(exp=10**400),
    "not valid yet": _signed(nbf=int(NOW) + 31),
    "no subject": _signed(sub=None),
    "subject is zero": _signed(sub="0"),
    "subject is negative": _signed(sub="-1"),
    "subject is 2**63": _signed(sub=str(2**63)),
    "subject is a name": _signed(sub="alice"),
    "scope is a list": _signed(scope=["admin"]),
    "very long": "a." * 5000,
    "critical extension": jwt.encode(_claims(), SECRET, headers={"crit": ["x"], "x": 1}),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_bad_token_is_401_and_never_an_anonymous_request(edge: Edge, what: str) -> None:
    response = await edge.post('{ viewer game(id: "1") { id } }', headers={"Authorization": f"Bearer {BAD[what]}"})
    assert response.status_code == 401
    assert only_error(response)["extensions"] == {"code": "UNAUTHENTICATED"}
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert edge.store.asked == 0
    if len(BAD[what]) > 10:
        assert BAD[what][:12] not in response.text


@pytest.mark.parametrize("header", ["", "Bearer", "Basic YTpi", "Token {}", "{}", "bearer:{}"])
async def test_an_authorization_that_is_no_bearer_token_is_401(edge: Edge, header: str) -> None:
    response = await edge.post("{ viewer }", headers={"Authorization": header.format(_signed())})
    assert response.status_code == 401


async def test_two_authorization_headers_are_401_though_each_is_good(edge: Edge) -> None:
    pairs = [("Authorization", f"Bearer {_signed()}"), ("Authorization", f"Bearer {_signed(sub='43')}")]
    response = await edge.client.post("/graphql", json={"query": "{ viewer }"}, headers=pairs)
    assert response.status_code == 401


async def test_a_good_token_names_the_viewer_and_none_names_nobody(edge: Edge) -> None:
    assert (await edge.post("{ viewer }")).json() == {"data": {"viewer": None}}
    for header in (f"Bearer {_signed()}", f"bearer   {_signed()} "):
        assert (await edge.post("{ viewer }", headers={"Authorization": header})).json() == {"data": {"viewer": "42"}}


async def test_thirty_seconds_of_leeway_and_no_more() -> None:
    clock = Clock()
    tokens = Tokens(secret=SECRET, clock=clock)
    late, early = _signed(exp=int(NOW)), _signed(nbf=int(NOW) + 30)
    clock.now = NOW + 29.9
    assert (await tokens.verify(late)).expires_at == NOW + 30
    clock.now = NOW
    assert (await tokens.verify(early)).user_id == 42
    clock.now = NOW + 30
    with pytest.raises(Unauthenticated, match="expired"):
        await tokens.verify(late)


async def test_a_token_is_verified_once_a_minute_and_never_past_its_end() -> None:
    clock = Clock()
    tokens = Tokens(secret=SECRET, clock=clock)
    token = _signed(exp=int(NOW) + 100)
    for _ in range(5):
        await tokens.verify(token)
    assert tokens.verified == 1
    clock.now += 61
    await tokens.verify(token)
    assert tokens.verified == 2
    clock.now = NOW + 130
    with pytest.raises(Unauthenticated, match="expired"):
        await tokens.verify(token)
    with pytest.raises(Unauthenticated, match="not valid"):
        await tokens.verify(token[:-1])


async def test_issuer_and_audience_are_required_when_set() -> None:
    tokens = Tokens(secret=SECRET, issuer="https://id.example", audience="headcount", clock=Clock())
    good: dict[str, Any] = {"iss": "https://id.example", "aud": ["headcount", "other"]}
    assert (await tokens.verify(_signed(**good))).user_id == 42
    assert (await tokens.verify(tokens.sign(7, ["admin"], 60))).scopes == {"admin"}
    wrongs: list[dict[str, Any]] = [{"iss": "https://evil.example"}, {"iss": None}, {"aud": "other"}, {"aud": None}]
    for wrong in wrongs:
        with pytest.raises(Unauthenticated):
            await tokens.verify(_signed(**{**good, **wrong}))
    assert (await Tokens(secret=SECRET, clock=Clock()).verify(_signed(**good))).user_id == 42


async def test_scopes_are_separated_by_spaces() -> None:
    tokens = Tokens(secret=SECRET, clock=Clock())
    assert (await tokens.verify(_signed(scope="a  b c"))).scopes == {"a", "b", "c"}
    assert (await tokens.verify(_signed())).scopes == frozenset()
    with pytest.raises(ValueError, match="unknown scope 'root'"):
        tokens.sign(1, ["root"], 60)


# Keys of others

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
KEYS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "rsa": (RSA_KEY, "RS256", RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True)),
    "ec": (EC_KEY, "ES256", ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True)),
    "ed": (ED_KEY, "EdDSA", OKPAlgorithm.to_jwk(ED_KEY.public_key(), as_dict=True)),
}


class Jwks:
    """A JWKS document that changes, counts its readings and can fail."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.read_count = 0
        self.fails = False

    def __call__(self) -> bytes:
        self.read_count += 1
        if self.fails:
            raise OSError("no route")
        return json.dumps({"keys": [{**KEYS[name][2], "kid": name} for name in self.names]}).encode()


def _by(name: str, kid: str | None = "", **changes: Any) -> str:
    key, algorithm, _ = KEYS[name]
    headers = None if kid is None else {"kid": kid or name}
    return jwt.encode(_claims(**changes), key, algorithm=algorithm, headers=headers)


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("kid", ["", None])
async def test_each_kind_of_public_key_verifies_its_own_algorithm(name: str, kid: str | None) -> None:
    tokens = Tokens(keys=SigningKeys(Jwks(*KEYS)), clock=Clock())
    assert (await tokens.verify(_by(name, kid))).user_id == 42
    assert not tokens.can_sign
    with pytest.raises(ValueError, match="signed elsewhere"):
        tokens.sign(1, [], 60)


async def test_a_public_key_is_never_taken_for_a_secret_nor_for_another_algorithm() -> None:
    tokens = Tokens(keys=SigningKeys(Jwks(*KEYS)), clock=Clock())
    pem = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    header, claims = {"alg": "HS256", "kid": "rsa"}, _claims()
    unsigned = _forged(header, claims).rpartition(".")[0]
    # PyJWT refuses to sign with a public key; an attacker would not.
    confused = _forged(header, claims, hmac.new(pem, unsigned.encode(), hashlib.sha256).digest())
    other = jwt.encode(_claims(), RSA_KEY, algorithm="RS512", headers={"kid": "rsa"})
    crossed = jwt.encode(_claims(), RSA_KEY, algorithm="RS256", headers={"kid": "ec"})
    for token in (confused, other, crossed, _signed(), _forged({"alg": "none", "kid": "rsa"}, claims)):
        with pytest.raises(Unauthenticated):
            await tokens.verify(token)


async def test_a_new_key_is_found_without_a_restart_and_strangers_cannot_make_us_fetch() -> None:
    jwks, clock = Jwks("rsa"), Clock()
    tokens = Tokens(keys=SigningKeys(jwks, clock), clock=Clock())
    assert (await tokens.verify(_by("rsa"))).user_id == 42
    assert jwks.read_count == 1
    jwks.names.append("ec")
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            await tokens.verify(_by("ec", "stranger"))
    assert jwks.read_count == 1, "read again within half a minute"
    clock.now += 30
    assert (await tokens.verify(_by("ec"))).user_id == 42
    assert jwks.read_count == 2


async def test_keys_that_cannot_be_read_again_go_on_serving_and_none_at_all_is_unavailable(make_edge: MakeEdge) -> None:
    jwks, clock = Jwks("rsa"), Clock()
    jwks.fails = True
    edge = make_edge(tokens=Tokens(keys=SigningKeys(jwks, clock), clock=Clock()))
    response = await edge.post("{ viewer }", headers={"Authorization": f"Bearer {_by('rsa')}"})
    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"
    assert only_error(response)["extensions"] == {"code": "UNAVAILABLE", "signal": "signingKeys"}
    jwks.fails = False
    clock.now += 30
    keys = SigningKeys(jwks, clock)
    tokens = Tokens(keys=keys, clock=Clock())
    await tokens.verify(_by("rsa"))
    jwks.fails = True
    clock.now += 601
    assert (await tokens.verify(_by("rsa", None))).user_id == 42
    if keys._reading is not None:
        await keys._reading
    with pytest.raises(Unavailable):
        await Tokens(keys=SigningKeys(jwks, clock), clock=Clock()).verify(_by("rsa"))


def test_weak_and_foreign_keys_are_left_out() -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505  # that is what it shows
    rows = [
        {**RSAAlgorithm.to_jwk(weak.public_key(), as_dict=True), "kid": "weak"},
        {"kty": "oct", "k": base64.urlsafe_b64encode(SECRET).decode(), "kid": "secret"},
        {**KEYS["rsa"][2], "kid": "encrypts", "use": "enc"},
        {**KEYS["rsa"][2], "kid": "other", "alg": "RS512"},
        {"kty": "EC", "crv": "P-256", "kid": "broken"},
        "nonsense",
        {**KEYS["ed"][2], "kid": "good"},
    ]
    assert [key.key_id for key in parse_keys(json.dumps({"keys": rows}).encode())] == ["good"]
    for nothing in (b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": []}', json.dumps({"keys": rows[:-1]}).encode()):
        with pytest.raises(ValueError, match=r"JWKS|no key"):
            parse_keys(nothing)


# Settings


def _settings(tmp_path: Path, **values: Any) -> Settings:
    return Settings(data_dir=tmp_path, _env_file=None, **values)  # type: ignore[call-arg]  # pydantic-settings' own


async def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: kept_secret(folder), range(16)))
    assert len(made) == 1
    assert len(made.pop()) == 64
    path = folder / "jwt_secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(folder) == ["jwt_secret"]  # noqa: PTH208  # names only
    token = make_tokens(_settings(folder), loopback=True).sign(7, [], 60)
    assert (await make_tokens(_settings(folder), loopback=True).verify(token)).user_id == 7


def test_a_secret_that_others_can_read_or_that_is_cut_is_refused_without_showing_it(tmp_path: Path) -> None:
    secret = kept_secret(tmp_path)
    path = tmp_path / "jwt_secret"
    path.chmod(0o640)
    with pytest.raises(SettingsError, match="can be read by others") as refused:
        kept_secret(tmp_path)
    assert secret.decode() not in str(refused.value)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(SettingsError, match="fewer than 32 bytes"):
        kept_secret(tmp_path)


def test_without_a_secret_only_loopback_is_served(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="HEADCOUNT_JWT_SECRET: required"):
        make_tokens(_settings(tmp_path), loopback=False)
    assert not list(tmp_path.iterdir())
    assert make_tokens(_settings(tmp_path, jwt_secret=SecretStr(SECRET.decode())), loopback=False).can_sign
    with pytest.raises(SettingsError, match="HEADCOUNT_JWKS_URL"):
        make_tokens(_settings(tmp_path, jwks_url="ftp://keys.example"), loopback=False)


async def test_with_keys_of_others_no_secret_is_made_and_the_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(Jwks("ec")())
    tokens = make_tokens(_settings(tmp_path / "data", jwks_file=path), loopback=True)
    assert not (tmp_path / "data").exists()
    assert not tokens.can_sign
    token = jwt.encode({"sub": "9", "exp": 2**40}, EC_KEY, algorithm="ES256", headers={"kid": "ec"})
    assert (await tokens.verify(token)).user_id == 9


async def test_tokens_of_users_who_were_deleted_are_refused_also_such_as_are_held() -> None:
    tokens, deleted = Tokens(secret=SECRET, clock=Clock()), {7}
    tokens.refuse_users(deleted)
    token = _signed()
    assert (await tokens.verify(token)).user_id == 42
    for deleted_id, text in ((7, _signed(sub="7")), (42, token)):
        deleted.add(deleted_id)
        for _ in range(2):
            with pytest.raises(Unauthenticated, match="deleted"):
                await tokens.verify(text)
    assert (await tokens.verify(_signed(sub="43"))).user_id == 43


async def test_a_deleted_user_gets_401_and_no_part_of_an_answer(edge: Edge) -> None:
    edge.tokens.refuse_users({7})
    response = await edge.post("{ viewer }", headers=edge.bearer(7))
    assert response.status_code == 401
    assert only_error(response)["extensions"] == {"code": "UNAUTHENTICATED"}
    assert "data" not in response.json()
    assert (await edge.post("{ viewer }", headers=edge.bearer(8))).status_code == 200
