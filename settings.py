"""Every knob of Headcount, typed, with its unit in its name.

Read from the environment (`HEADCOUNT_…`) or a `.env` file in the working folder; the environment wins.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from dotenv import dotenv_values  # what pydantic-settings reads the file with
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

_PREFIX = "HEADCOUNT_"
_FILE = ".env"
_REDIS_SCHEMES = {"redis", "rediss", "unix"}


class SettingsError(Exception):
    """A setting has a wrong value. Its text is one line that names the setting and the rule."""


class Settings(BaseSettings):
    """What an operator can set. Defaults serve one machine with nothing else installed."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_file=_FILE, env_file_encoding="utf-8", extra="ignore", frozen=True
    )

    data_dir: Path = Field(
        default_factory=lambda: Path("~/.local/share/headcount").expanduser(),
        description="Folder for the SQLite truth, the embedded Redis and the token secret.",
    )
    redis_url: str | None = Field(default=None, description="Redis for derived state. Unset: an embedded one.")
    neo4j_uri: str | None = Field(default=None, description="Neo4j for the truth. Unset: SQLite in the data folder.")
    neo4j_user: str = Field(default="neo4j", description="Neo4j user name.")
    neo4j_password: SecretStr | None = Field(default=None, description="Neo4j password.")
    neo4j_database: str = Field(default="neo4j", description="Neo4j database name.")

    jwt_secret: SecretStr | None = Field(
        default=None,
        description="HS256 secret, 32 bytes or more. Unset on loopback: made once and kept in the data folder.",
    )
    jwks_url: str | None = Field(default=None, description="Address of the keys for RS256, ES256 and EdDSA tokens.")
    jwks_file: Path | None = Field(default=None, description="File with the keys for RS256, ES256 and EdDSA tokens.")
    jwt_issuer: str | None = Field(default=None, description="Required `iss` of a token. Unset: any.")
    jwt_audience: str | None = Field(default=None, description="Required `aud` of a token. Unset: any.")
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Origins allowed by CORS and for WebSockets, comma-separated."
    )
    introspection: bool = Field(default=False, description="Allow GraphQL introspection. `serve --dev` implies it.")
    metrics_port: int | None = Field(
        default=None, ge=1, le=65_535, description="Port of /metrics. Unset: the port that everything is served on."
    )
    metrics_host: str = Field(default="127.0.0.1", description="Address that the metrics port listens on.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="Lowest level logged.")

    session_ttl_seconds: int = Field(
        default=60, ge=5, le=3600, description="A session counts as live this long after its last heartbeat."
    )
    recount_interval_ms: int = Field(
        default=1000, ge=50, le=60_000, description="Time between recounts of live sessions."
    )
    fanout_max_friends: int = Field(
        default=2000, ge=1, description="Users with more friends than this have their plays read, not pushed."
    )
    signal_deadline_ms: int = Field(
        default=150, ge=1, le=60_000, description="A signal that takes longer falls back to another source."
    )
    stale_max_seconds: int = Field(
        default=60, ge=0, le=3600, description="The oldest last known value that is shown when a store is away."
    )
    view_idle_seconds: int = Field(default=86_400, ge=60, description="A view unread for this long leaves Redis.")

    @field_validator("redis_url", mode="after")
    @classmethod
    def _redis_address(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                address = urlsplit(value)
                _ = address.port  # raises where it is no number
            except ValueError:
                address = None
            if address is None or address.scheme not in _REDIS_SCHEMES:
                # Without the value, which may hold a password.
                raise ValueError("must be an address that begins with redis://, rediss:// or unix://")
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_any_case(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    @field_validator("allowed_origins", mode="before")
    @classmethod
    def _split_origins(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("data_dir", mode="after")
    @classmethod
    def _expand_home(cls, value: Path) -> Path:
        return value.expanduser()

    @field_validator("jwt_secret", mode="after")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value().encode()) < 32:
            raise ValueError("must be 32 bytes or more")
        return value


def load_settings(**overrides: object) -> Settings:
    """Read the settings.

    Args:
        overrides: values that win over the environment, by field name.

    Raises:
        SettingsError: a value is wrong, or the file is no text; one line that names the setting and the rule, never a
            secret's value.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = _PREFIX + str(first["loc"][0]).upper()
        raise SettingsError(f"{name}: {first['msg'].removeprefix('Value error, ')}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{_FILE}: is not UTF-8; save the file as UTF-8") from None


def unknown_settings() -> list[str]:
    """Names in the environment and the `.env` file that look like settings and are none: mostly mistyped ones."""
    known = {_PREFIX + name.upper() for name in Settings.model_fields}
    given = {name.upper() for name in (*os.environ, *dotenv_values(_FILE))}
    return sorted(name for name in given if name.startswith(_PREFIX) and name not in known)
