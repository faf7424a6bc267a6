"""Where a chat request becomes a cache question: what must match exactly, what by meaning, what is not cached.

Only the text of the last user turn is fuzzy. Everything else that can affect the answer goes into the
partition. `FIELDS` classifies every known body field; a field that is not listed counts as ANSWER, so that
an unknown parameter never merges two requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from auth import Principal
from backends import Version

from .body import Json, canonical
from .controls import Controls
from .cues import DEFAULTS, Cue, Treatment, find_cue
from .errors import InvalidRequest


class Kind(Enum):
    """What a field does to the identity of a request."""

    ANSWER = "affects the answer: must match exactly"
    SCOPE = "says for whom: matches exactly where the cache's scope is that narrow"
    DELIVERY = "says how the answer travels: one stored answer serves both ways"
    NO_EFFECT = "changes nothing about the answer"
    SIDE_EFFECT = "the call does more than answer: never cached"


# Generation parameters of OpenAI and vLLM are all ANSWER, listed or not; they are listed so that the table
# can be read and tested. Each other kind carries its reason.
FIELDS: dict[str, Kind] = {
    "messages": Kind.ANSWER,
    "model": Kind.ANSWER,  # as the version: public name and revision
    "temperature": Kind.ANSWER,
    "top_p": Kind.ANSWER,
    "top_k": Kind.ANSWER,
    "min_p": Kind.ANSWER,
    "n": Kind.ANSWER,
    "seed": Kind.ANSWER,
    "stop": Kind.ANSWER,
    "max_tokens": Kind.ANSWER,
    "max_completion_tokens": Kind.ANSWER,
    "presence_penalty": Kind.ANSWER,
    "frequency_penalty": Kind.ANSWER,
    "repetition_penalty": Kind.ANSWER,
    "logit_bias": Kind.ANSWER,
    "logprobs": Kind.ANSWER,
    "top_logprobs": Kind.ANSWER,
    "tools": Kind.ANSWER,
    "tool_choice": Kind.ANSWER,
    "parallel_tool_calls": Kind.ANSWER,
    "functions": Kind.ANSWER,
    "function_call": Kind.ANSWER,
    "response_format": Kind.ANSWER,
    "structured_outputs": Kind.ANSWER,
    "modalities": Kind.ANSWER,
    "audio": Kind.ANSWER,
    "prediction": Kind.ANSWER,
    "reasoning_effort": Kind.ANSWER,
    "verbosity": Kind.ANSWER,
    "web_search_options": Kind.ANSWER,
    "chat_template": Kind.ANSWER,
    "chat_template_kwargs": Kind.ANSWER,
    "user": Kind.SCOPE,  # an end-user's id for abuse monitoring; no model sees it
    "safety_identifier": Kind.SCOPE,  # its newer name
    "stream": Kind.DELIVERY,
    "stream_options": Kind.DELIVERY,
    "metadata": Kind.NO_EFFECT,  # labels for the caller's own dashboards
    "prompt_cache_key": Kind.NO_EFFECT,  # routing hint
    "prompt_cache_retention": Kind.NO_EFFECT,  # how long the server keeps a prefix
    "service_tier": Kind.NO_EFFECT,  # price and queue
    "priority": Kind.NO_EFFECT,  # queue
    "cache": Kind.NO_EFFECT,  # LiteLLM's controls for the gateway itself; stripped before the backend
    "cache_salt": Kind.NO_EFFECT,  # separates the engine's prefix cache, not its answers
    "store": Kind.SIDE_EFFECT,
    "previous_response_id": Kind.SIDE_EFFECT,
    "conversation": Kind.SIDE_EFFECT,
    "background": Kind.SIDE_EFFECT,
}


_SIDE_EFFECTS = tuple(name for name, kind in FIELDS.items() if kind is Kind.SIDE_EFFECT)
# All but ANSWER, so that what is not listed is in; messages and model stand in the material in a form of their own.
_NOT_IN_FIELDS = frozenset(name for name, kind in FIELDS.items() if kind is not Kind.ANSWER) | {
    "messages",
    "model",
}


class Fuzzy(msgspec.Struct, frozen=True):
    """The last user text and where it stands: the one part of a request that may be matched by meaning."""

    text: str
    place: Json
    skip: str | None  # why it must not be, if so


class Plan(msgspec.Struct, frozen=True):
    """What the pipeline does with a request. `bypass` (a reason) means: neither read nor store nor share."""

    bypass: str | None = None
    namespace: str = ""
    material: bytes = b""  # everything that must match exactly, canonical
    text: str = ""
    skip_semantic: str | None = None
    most_ttl_s: float | None = None  # how long its answer may be kept, where the question itself bounds that


class CuePolicy(msgspec.Struct, frozen=True):
    """What becomes of questions with cues. The answer to a time-bound one is kept for `time_bound_ttl_s` at most."""

    treatments: Mapping[Cue, Treatment] = msgspec.field(default_factory=lambda: DEFAULTS)
    time_bound_ttl_s: float = 300.0


_USUAL_CUES = CuePolicy()


def plan(
    values: dict[str, Json],
    *,
    principal: Principal,
    version: Version,
    controls: Controls,
    cues: CuePolicy = _USUAL_CUES,
) -> Plan:
    """Pure. Raises InvalidRequest where the body is not a chat request at all."""
    messages = values.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise InvalidRequest("messages must be an array of objects.", param="messages")
    if controls.mode == "off":
        return Plan(bypass="mode-off")
    if not (controls.reads or controls.stores):
        return Plan(bypass="no-store")
    if (reason := _side_effect(values)) is not None:
        return Plan(bypass=reason)
    plain = [_with_plain_text(message) for message in messages if isinstance(message, dict)]
    if any(_is_remote(part) for message in plain for part in _parts(message)):
        return Plan(bypass="remote-content")  # the same address can show another picture tomorrow
    fuzzy, skeleton = _split_last_turn(plain)
    cue = find_cue(fuzzy.text)
    treatment = "semantic" if cue is None else cues.treatments[cue]
    if treatment == "bypass":
        return Plan(bypass=cue)
    tenant = _pool_of(principal)
    material = canonical(
        {
            "format": 1,
            "endpoint": "chat.completions",
            "tenant": tenant,
            "scope": _scope(values, principal),
            "namespace": controls.namespace,
            "model": version.model,
            "revision": version.revision,
            "fields": {name: value for name, value in values.items() if name not in _NOT_IN_FIELDS},
            "messages": skeleton,
            "fuzzy": fuzzy.place,
        }
    ).encode()
    return Plan(
        namespace=f"{tenant}/{controls.namespace}/{version.model}",
        material=material,
        text=fuzzy.text,
        skip_semantic=_skip_semantic(values, plain, fuzzy, controls)
        or (cue if treatment == "exact" else None),
        most_ttl_s=cues.time_bound_ttl_s if cue == "time-bound" and treatment == "exact" else None,
    )


def _side_effect(values: dict[str, Json]) -> str | None:
    for name in _SIDE_EFFECTS:
        if values.get(name) not in (None, False):
            return f"side-effect-{name.replace('_', '-')}"
    return None


def _pool_of(principal: Principal) -> str:
    """The tenant; or, where its admin opted into the shared pool, a name that no tenant can have."""
    return "*" if principal.shared_pool and principal.cache_scope == "tenant" else principal.tenant


def _scope(values: dict[str, Json], principal: Principal) -> list[Json]:
    match principal.cache_scope:
        case "tenant":
            return []
        case "service":
            return [principal.service]
        case "user":
            return [principal.service, values.get("user"), values.get("safety_identifier")]


def _with_plain_text(message: dict[str, Json]) -> dict[str, Json]:
    """A content array of one bare text part says the same as that string."""
    match message.get("content"):
        case [{"type": "text", "text": str() as text, **others}] if not others:
            return {**message, "content": text}
    return message


def _parts(message: dict[str, Json]) -> list[dict[str, Json]]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _is_remote(part: dict[str, Json]) -> bool:
    """Does the part name content that lies elsewhere (a URL that is not data:, a file id)?"""
    for value in part.values():
        if isinstance(value, dict):
            url = value.get("url", value.get("file_url"))
            if isinstance(url, str) and not url.startswith("data:"):
                return True
            if value.get("file_id") is not None:
                return True
        elif isinstance(value, str) and part.get("type") != "text" and "://" in value[:16]:
            return True
    return False


def _split_last_turn(messages: list[dict[str, Json]]) -> tuple[Fuzzy, list[Json]]:
    """Take the text out of the last turn. Where it stood is part of the identity: nothing collides with the gap."""
    skeleton: list[Json] = list(messages)
    if not messages or (role := messages[-1].get("role")) != "user":
        reason = "tool-result" if messages and role in ("tool", "function") else "last-turn-not-user"
        return Fuzzy("", None, reason), skeleton
    last = messages[-1]
    match last.get("content"):
        case str() as text:
            skeleton[-1] = {**last, "content": None}
            return Fuzzy(text, "content", None if text.strip() else "no-text"), skeleton
        case [*parts]:
            return _split_parts(last, parts, skeleton)
    return Fuzzy("", None, "no-text"), skeleton


def _split_parts(last: dict[str, Json], parts: list[Json], skeleton: list[Json]) -> tuple[Fuzzy, list[Json]]:
    """Of several parts the last text is the question; what stands around it (documents, images) must match exactly."""
    skip = None if all(isinstance(p, dict) and p.get("type") == "text" for p in parts) else "non-text-part"
    for at in range(len(parts) - 1, -1, -1):
        part = parts[at]
        if (
            isinstance(part, dict)
            and part.get("type") == "text"
            and isinstance(text := part.get("text"), str)
        ):
            gap: Json = {**part, "text": None}
            skeleton[-1] = {**last, "content": [*parts[:at], gap, *parts[at + 1 :]]}
            return Fuzzy(text, ["content", at], skip or (None if text.strip() else "no-text")), skeleton
    return Fuzzy("", None, skip or "no-text"), skeleton


def _skip_semantic(
    values: dict[str, Json], messages: list[dict[str, Json]], fuzzy: Fuzzy, controls: Controls
) -> str | None:
    if controls.mode == "exact":
        return "mode-exact"
    if fuzzy.skip is not None:
        return fuzzy.skip
    if any(part.get("type") != "text" for message in messages for part in _parts(message)):
        return "non-text-part"
    if values.get("n") not in (None, 1):
        return "several-choices"
    temperature = values.get("temperature")
    if isinstance(temperature, int | float) and temperature > 1:
        return "temperature"
    if values.get("logprobs"):
        return "logprobs"  # they speak of the very tokens of the very prompt
    return "payload" if _is_payload(fuzzy.text) else None


def _is_payload(text: str) -> bool:
    """Does the text carry material to work on (code, a table, a long document) rather than ask a question?

    Two such texts can be near in meaning and differ in the one line that matters.
    """
    return "```" in text or text.count("\n") > 8
