"""The sections of the configuration: their keys, defaults and bounds. Pure; reading is settings.py's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def split_bind(bind: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8080` or `[::1]:8080`. Raises ValueError."""
    host, _, port = bind.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"expected HOST:PORT such as 127.0.0.1:8080, found {bind!r}")
    return host, int(port)


def _checked_bind(bind: str) -> str:
    split_bind(bind)
    return bind


Bind = Annotated[str, AfterValidator(_checked_bind)]


class ServerSettings(Section):
    bind: Bind = "127.0.0.1:8080"
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    body_limit_mib: Annotated[int, Field(ge=1, le=64)] = 4
    grace_s: Annotated[float, Field(ge=0, le=3600)] = 30.0


class AdminSettings(Section):
    bind: Bind = "127.0.0.1:8081"


def _checked_store_url(url: str) -> str:
    # The URL may hold a password, so the message does not repeat it.
    if urlsplit(url).scheme not in ("redis", "rediss", "unix"):
        raise ValueError("expected a URL that starts with redis://, rediss:// or unix://")
    return url


StoreUrl = Annotated[str, AfterValidator(_checked_store_url)]


class StoreSettings(Section):
    """Two roles; null means the embedded store."""

    durable: Annotated[StoreUrl | None, Field(repr=False)] = None
    cache: Annotated[StoreUrl | None, Field(repr=False)] = None
    deadline_ms: Annotated[float, Field(gt=0, le=10_000)] = 50.0

    @model_validator(mode="after")
    def _both_or_none(self) -> StoreSettings:
        if (self.durable is None) != (self.cache is None):
            raise ValueError("set both store.durable and store.cache (they may be equal), or neither")
        return self

    @property
    def is_embedded(self) -> bool:
        return self.durable is None


def _normal_base_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected a URL such as http://vllm-1:8000")
    if parts.username or parts.password:
        raise ValueError("credentials do not belong in the URL: use api_key_env or api_key_file")
    if parts.query or parts.fragment:
        raise ValueError("expected a URL without a query or fragment")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


class MemberSettings(Section):
    """One model server. `model` is its own name for the model (default: the public one)."""

    url: Annotated[str, AfterValidator(_normal_base_url)]
    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    model: str = Field(min_length=1, max_length=256)
    revision: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    api_key_env: str | None = None
    api_key_file: Path | None = None


class UpstreamSettings(Section):
    connect_timeout_s: Annotated[float, Field(gt=0)] = 3.0
    first_byte_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    idle_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    request_timeout_s: Annotated[float, Field(gt=0)] = 600.0


class PoolTimeouts(Section):
    """A pool's own values; what is null comes from `upstream`."""

    connect_timeout_s: Annotated[float | None, Field(gt=0)] = None
    first_byte_timeout_s: Annotated[float | None, Field(gt=0)] = None
    idle_timeout_s: Annotated[float | None, Field(gt=0)] = None
    request_timeout_s: Annotated[float | None, Field(gt=0)] = None

    def over(self, base: UpstreamSettings) -> UpstreamSettings:
        return base.model_copy(update=self.model_dump(exclude_none=True))


class PoolSettings(Section):
    members: tuple[MemberSettings, ...] = Field(min_length=1)
    timeouts: PoolTimeouts = PoolTimeouts()

    @field_validator("members")
    @classmethod
    def _unique_names(cls, members: tuple[MemberSettings, ...]) -> tuple[MemberSettings, ...]:
        names = [member.name for member in members]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two members are named {', '.join(twice)}")
        return members


def pools_in_full(pools: object) -> object:
    """Write `model: [url, …]` out as `model: {members: [{url, name, model}, …]}`."""
    if not isinstance(pools, Mapping):
        return pools
    return {model: _long_pool(str(model), pool) for model, pool in pools.items()}


def _long_pool(model: str, pool: object) -> object:
    if isinstance(pool, list | tuple):
        pool = {"members": pool}
    if not isinstance(pool, Mapping) or not isinstance(pool.get("members"), list | tuple):
        return pool
    members = [_long_member(model, number, member) for number, member in enumerate(pool["members"], start=1)]
    return {**pool, "members": members}


def _long_member(model: str, number: int, member: object) -> object:
    if isinstance(member, str):
        member = {"url": member}
    if not isinstance(member, Mapping):
        return member
    name = re.sub(r"[^A-Za-z0-9._-]", "-", model)
    return {"name": f"{name[:56]}-{number}", "model": model, **member}


class EmbedderSettings(Section):
    """`model`: a prepared folder (onnx; null means the data folder's) or a sentence-transformers name."""

    kind: Literal["onnx", "sentence_transformers", "none"] = "onnx"
    precision: Literal["int8", "fp32"] = "int8"
    model: str | None = None

    @model_validator(mode="after")
    def _named(self) -> EmbedderSettings:
        if self.kind == "sentence_transformers" and self.model is None:
            raise ValueError("sentence_transformers needs cache.embedder.model, a model name or folder")
        return self


class CacheSettings(Section):
    mode: Literal["semantic", "exact", "off"] = "semantic"
    policy: Literal["guarded", "fixed"] = "guarded"
    threshold: Annotated[float, Field(ge=-1, le=1)] = 0.95
    ttl_s: Annotated[float, Field(gt=0)] = 86_400.0
    semantic_deadline_ms: Annotated[float, Field(gt=0)] = 250.0
    max_entry_kib: Annotated[int, Field(ge=1, le=65_536)] = 1024
    scope: Literal["tenant", "service", "user"] = "tenant"
    embedder: EmbedderSettings = EmbedderSettings()

    @field_validator("mode", mode="before")
    @classmethod
    def _off_is_a_word(cls, mode: object) -> object:
        return "off" if mode is False else mode  # YAML 1.1 reads a bare `off` as false


class LimitSettings(Section):
    """Defaults of new keys."""

    rate_per_s: Annotated[float, Field(gt=0, le=1_000_000)] = 100.0
    burst: Annotated[int, Field(ge=1, le=1_000_000)] = 500


class TelemetrySettings(Section):
    """`trust`: whether an incoming traceparent becomes the parent, a link, or nothing.

    Everything else about tracing is OpenTelemetry's own environment (OTEL_*).
    """

    trust: Literal["parent", "link", "ignore"] = "parent"
    slow_ms: Annotated[float, Field(gt=0)] = 10_000.0
