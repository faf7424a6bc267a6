"""The configuration of pools: their members, how one is chosen, versions, timeouts, discovery. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from .sections import Proxies as Networks
from .sections import Section

MemberName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


def normal_base_url(url: str) -> str:
    """A model server's URL as members have it. Raises ValueError, in words for whoever wrote it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("expected a URL such as http://vllm-1:8000")
    if parts.username or parts.password:
        raise ValueError("credentials do not belong in the URL: use api_key_env or api_key_file")
    if parts.query or parts.fragment:
        raise ValueError("expected a URL without a query or fragment")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


class CapabilitySettings(Section):
    """What a member can do beyond plain text; what is not said here rules nothing out.

    Requests with pictures go to members with the modality `image` where a pool has any, long ones to members whose
    `max_context` (tokens) suffices. `features` are fields that the gateway itself may set for this server:
    `priority` (vLLM with `--scheduling-policy priority`) and `cache_salt`.
    """

    max_context: Annotated[int | None, Field(ge=1)] = None
    modalities: tuple[Literal["image", "audio", "video", "file"], ...] = ()
    features: tuple[Literal["priority", "cache_salt"], ...] = ()


class MemberSettings(Section):
    """One model server. `model` is its own name for the model (default: the public one).

    With `discover: dns` the host of `url` stands for as many servers as it has addresses, which are looked up again
    and again. Those of a higher `tier` are asked only when nobody of the lower ones can be.
    """

    url: Annotated[str, AfterValidator(normal_base_url)]
    name: MemberName
    model: str = Field(min_length=1, max_length=256)
    revision: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    tier: Annotated[int, Field(ge=0, le=9)] = 0
    capabilities: CapabilitySettings = CapabilitySettings()
    discover: Literal["none", "dns"] = "none"
    api_key_env: str | None = None
    api_key_file: Path | None = None

    @model_validator(mode="after")
    def _found_by_address(self) -> MemberSettings:
        if self.discover == "dns" and not self.url.startswith("http://"):
            raise ValueError(
                "discover: dns connects to addresses, for which no certificate is made out: use http://"
            )
        return self


class UpstreamSettings(Section):
    """`poll_interval_ms`: how often this host asks each server for its load. `discovery_interval_s`: how often names
    with `discover: dns` are looked up. `allow_networks` are exceptions from the addresses that are never connected to:
    link-local ones and others where clouds hand out a machine's own credentials."""

    connect_timeout_s: Annotated[float, Field(gt=0)] = 3.0
    first_byte_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    idle_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    request_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    poll_interval_ms: Annotated[float, Field(ge=50, le=1000)] = 250.0
    discovery_interval_s: Annotated[float, Field(ge=0.5, le=300)] = 5.0
    allow_networks: Networks = ()


class PoolTimeouts(Section):
    """A pool's own values; what is null comes from `upstream`."""

    connect_timeout_s: Annotated[float | None, Field(gt=0)] = None
    first_byte_timeout_s: Annotated[float | None, Field(gt=0)] = None
    idle_timeout_s: Annotated[float | None, Field(gt=0)] = None
    request_timeout_s: Annotated[float | None, Field(gt=0)] = None

    def over(self, base: UpstreamSettings) -> UpstreamSettings:
        return base.model_copy(update=self.model_dump(exclude_none=True))


class PoolSettings(Section):
    """`versions` gives weights by revision; one that is not listed weighs as much as its members together. With
    `sticky_versions` a key gets the same version each time."""

    members: tuple[MemberSettings, ...] = Field(min_length=1)
    policy: Literal["least-load", "p2c", "prefix", "random", "round-robin", "weighted"] = "least-load"
    versions: dict[str, Annotated[float, Field(ge=0, le=1_000_000)]] = Field(default_factory=dict)
    sticky_versions: bool = False
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
