"""The sections of the configuration: their keys, defaults and bounds. Pure; reading is settings/reading.py's."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ..data.endpoints import ENDPOINTS
from ..store.address import StoreAddress


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)


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


def _checked_proxy(proxy: str) -> str:
    try:
        ipaddress.ip_network(proxy)
    except ValueError as error:
        raise ValueError(f"expected addresses or networks such as 10.0.0.0/8, found {error}") from error
    return proxy


# Of requests that come from these, X-Forwarded-For and X-Forwarded-Proto are believed.
Proxies = tuple[Annotated[str, AfterValidator(_checked_proxy)], ...]


class TlsSettings(Section):
    """PEM files; `cert` holds the whole chain."""

    cert: Path
    key: Path


class AdminTlsSettings(TlsSettings):
    """With `client_ca`, whoever connects needs a certificate that it has signed."""

    client_ca: Path | None = None


def _checked_origin(origin: str) -> str:
    parts = urlsplit(origin)
    is_origin = parts.scheme and parts.netloc and origin == f"{parts.scheme}://{parts.netloc}".lower()
    if origin != "*" and not is_origin:
        raise ValueError(f"expected an origin such as https://app.example.com (no path), found {origin!r}")
    return origin


class CorsSettings(Section):
    """Whose pages may ask from a browser. `credentials` lets them send cookies and the like along."""

    origins: Annotated[tuple[Annotated[str, AfterValidator(_checked_origin)], ...], Field(min_length=1)]
    credentials: bool = False
    max_age_s: Annotated[int, Field(ge=0, le=86_400)] = 600

    @model_validator(mode="after")
    def _nobody_gets_all(self) -> CorsSettings:
        if "*" in self.origins and (self.credentials or len(self.origins) > 1):
            raise ValueError("origins: '*' stands alone, and without credentials; name the origins instead")
        return self


def _known_endpoint(path: str) -> str:
    if path not in ENDPOINTS:
        raise ValueError(f"expected one of {', '.join(ENDPOINTS)}, found {path!r}")
    return path


class ServerSettings(Section):
    """`stream_keep_alive_s`: seconds of silence after which a stream gets a comment; null: never."""

    bind: Bind = "127.0.0.1:8080"
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    body_limit_mib: Annotated[int, Field(ge=1, le=64)] = 4
    grace_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    tls: TlsSettings | None = None
    trusted_proxies: Proxies = ()
    cors: CorsSettings | None = None
    compression: Literal["off", "replies", "streams"] = "replies"
    stream_keep_alive_s: Annotated[float, Field(gt=0, le=3600)] | None = 15.0
    pass_through: tuple[Annotated[str, AfterValidator(_known_endpoint)], ...] = tuple(ENDPOINTS)


class AdminSettings(Section):
    """`audit_key_env` names the environment variable of the audit log's key; null: `audit.key` in the data folder.
    `events_secret_env` names that of the secret which signs events; null: events need an admin key. `shows_texts`:
    owners may see, and take out, what people asked and were answered."""

    bind: Bind = "127.0.0.1:8081"
    tls: AdminTlsSettings | None = None
    trusted_proxies: Proxies = ()
    audit_key_env: str | None = None
    events_secret_env: str | None = None
    shows_texts: bool = False


def _checked_store_url(url: str) -> str:
    StoreAddress.parse(url)  # its message does not repeat the URL, which may hold a password
    return url


StoreUrl = Annotated[str, AfterValidator(_checked_store_url)]


def _checked_key_source(source: str) -> str:
    kind, _, name = source.partition(":")
    if kind not in ("env", "file") or not name:
        # What stands there may be the key itself: it is not repeated.
        raise ValueError("expected env:NAME or file:PATH, which name where the key is, and not the key")
    return source


KeySource = Annotated[str, AfterValidator(_checked_key_source)]


class StoreSettings(Section):
    """Two roles; null means the embedded store. `encrypt_key`: where the keys are with which the cache store's contents
    are sealed; the first one seals, all of them open."""

    durable: Annotated[StoreUrl | None, Field(repr=False)] = None
    cache: Annotated[StoreUrl | None, Field(repr=False)] = None
    deadline_ms: Annotated[float, Field(gt=0, le=10_000)] = 50.0
    encrypt_key: KeySource | tuple[KeySource, ...] = ()

    @property
    def encrypt_keys(self) -> tuple[str, ...]:
        return (self.encrypt_key,) if isinstance(self.encrypt_key, str) else self.encrypt_key

    @model_validator(mode="after")
    def _both_or_none(self) -> StoreSettings:
        if (self.durable is None) != (self.cache is None):
            raise ValueError("set both store.durable and store.cache (they may be equal), or neither")
        return self

    @property
    def is_embedded(self) -> bool:
        return self.durable is None


class LimitSettings(Section):
    """`requests_per_s` and `burst` are those of new keys. `store_gone` says what holds while the durable store is
    away: each worker's share, nothing passes, or everything does."""

    requests_per_s: Annotated[float, Field(ge=10, le=5_000)] = 100.0
    burst: Annotated[int, Field(ge=1, le=1_000_000_000)] = 500
    charge_hits: bool = False
    store_gone: Literal["local", "closed", "open"] = "local"


class PriceSettings(Section):
    """Of a million tokens, in whatever money budgets are given in."""

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]


class TelemetrySettings(Section):
    """`trust`: whether an incoming traceparent becomes the parent, a link, or nothing.

    Everything else about tracing is OpenTelemetry's own environment (OTEL_*).
    """

    trust: Literal["parent", "link", "ignore"] = "parent"
    slow_ms: Annotated[float, Field(gt=0)] = 10_000.0
