"""What the caller asks of the cache, by headers or by LiteLLM's body object `cache`, as one value.

An unknown spelling of our own controls is refused, never half applied: a caller who asks for fresh answers and
mistypes it must not get stored ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from .body import Json
from .errors import InvalidRequest

# Each allows what the ones before it allow. In `shadow` similar answers are looked for and judged, never served.
Mode = Literal["off", "exact", "shadow", "semantic"]
MODES: tuple[Mode, ...] = ("off", "exact", "shadow", "semantic")
# How a stored answer is streamed: at once, or about as fast as it was made.
Replay = Literal["instant", "natural"]
REPLAYS: tuple[Replay, ...] = ("instant", "natural")

_namespace = re.compile(r"[a-z0-9._-]{1,64}").fullmatch


class Controls(msgspec.Struct, frozen=True):
    """`reads` and `stores` follow HTTP: no-cache means do not read but do store, no-store means neither."""

    mode: Mode = "semantic"
    namespace: str = "default"
    reads: bool = True
    stores: bool = True
    only_if_cached: bool = False
    max_age_s: float | None = None
    min_similarity: float | None = None
    ttl_s: float | None = None
    replay: Replay | None = None


def read_controls(headers: Mapping[bytes, bytes], member: Json, *, mode: Mode) -> Controls:
    """The caller's wishes on top of the deployment's mode, which they can narrow but not widen.

    Raises InvalidRequest for a value that is not one of ours.
    """
    controls = Controls(mode=mode)
    if b"cache-control" in headers:
        controls = _cache_control(headers[b"cache-control"].decode("latin-1"), controls)
    if (value := _text(headers, b"x-cache-mode")) is not None:
        if value not in MODES:
            raise InvalidRequest(f"x-cache-mode is one of {', '.join(MODES)}.", param="x-cache-mode")
        controls = replace(controls, mode=min(mode, value, key=MODES.index))
    if (value := _text(headers, b"x-cache-namespace")) is not None:
        controls = replace(controls, namespace=_as_namespace(value, "x-cache-namespace"))
    if (value := _text(headers, b"x-cache-threshold")) is not None:
        controls = replace(controls, min_similarity=_as_similarity(value))
    if (value := _text(headers, b"x-cache-replay")) is not None:
        if value not in REPLAYS:
            raise InvalidRequest(f"x-cache-replay is one of {', '.join(REPLAYS)}.", param="x-cache-replay")
        controls = replace(controls, replay=value)
    return controls if member is None else _litellm(member, controls)


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1").strip()


def _cache_control(value: str, controls: Controls) -> Controls:
    """The request directives of RFC 9111 that mean something here; others are ignored, as it asks."""
    for directive in value.lower().split(","):
        name, _, argument = directive.strip().partition("=")
        match name:
            case "no-cache":
                controls = replace(controls, reads=False)
            case "no-store":
                controls = replace(controls, reads=False, stores=False)
            case "only-if-cached":
                controls = replace(controls, only_if_cached=True)
            case "max-age":
                controls = replace(
                    controls, max_age_s=_as_seconds(argument.strip('"'), "cache-control: max-age")
                )
            case _:
                pass
    return controls


def _litellm(member: Json, controls: Controls) -> Controls:
    """LiteLLM's body object: {"no-cache", "no-store", "ttl", "s-maxage", "namespace", "use-cache"}."""
    if not isinstance(member, dict):
        raise InvalidRequest("cache must be an object.", param="cache")
    for name, value in member.items():
        match name:
            case "no-cache":
                controls = replace(controls, reads=controls.reads and not _as_flag(value, "cache.no-cache"))
            case "no-store":
                if _as_flag(value, "cache.no-store"):
                    controls = replace(controls, reads=False, stores=False)
            case "use-cache":
                if not _as_flag(value, "cache.use-cache"):
                    controls = replace(controls, mode="off")
            case "ttl":
                controls = replace(controls, ttl_s=_as_seconds(value, "cache.ttl"))
            case "s-maxage":
                controls = replace(controls, max_age_s=_as_seconds(value, "cache.s-maxage"))
            case "namespace":
                controls = replace(controls, namespace=_as_namespace(value, "cache.namespace"))
            case _:
                raise InvalidRequest(
                    f"cache has the unknown key {name[:64]!r}; known are no-cache, no-store, use-cache, ttl, "
                    "s-maxage and namespace.",
                    param=f"cache.{name[:64]}",
                )
    return controls


def _as_flag(value: Json, param: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequest(f"{param} must be true or false.", param=param)
    return value


def _as_seconds(value: Json, param: str) -> float:
    try:
        seconds = (
            float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
        )
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 10**9:
        raise InvalidRequest(f"{param} must be a number of seconds, 0 or more.", param=param)
    return seconds


def _as_similarity(value: str) -> float:
    try:
        similarity = float(value)
    except ValueError:
        similarity = -1.0
    if not 0 <= similarity <= 1:
        raise InvalidRequest(
            "x-cache-threshold must be a cosine similarity between 0 and 1.", param="x-cache-threshold"
        )
    return similarity


def _as_namespace(value: Json, param: str) -> str:
    if not isinstance(value, str) or not _namespace(value):
        raise InvalidRequest(f"{param} must match [a-z0-9._-]{{1,64}}.", param=param)
    return value
