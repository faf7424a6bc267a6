"""Where a request becomes a cache question: what must match exactly, what by meaning, what is not cached.

Only the text of the last user turn is fuzzy (each dialect knows where that stands). Everything else that can
affect the answer goes into the
partition. `FIELDS` classifies every known body field; a field that is not listed counts as ANSWER, so that
an unknown parameter never merges two requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

import msgspec

from auth import Principal
from backends import Version

from .body import Json, canonical
from .controls import Controls
from .cues import DEFAULTS, Cue, Treatment, find_cue
from .dialects import Dialect
from .dialects.dialect import Fuzzy


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
    "messages": Kind.ANSWER,  # chat completions
    "prompt": Kind.ANSWER,  # completions; in responses a template that the server keeps
    "input": Kind.ANSWER,  # responses
    "instructions": Kind.ANSWER,
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
    "max_output_tokens": Kind.ANSWER,
    "max_tool_calls": Kind.ANSWER,
    "suffix": Kind.ANSWER,
    "echo": Kind.ANSWER,
    "best_of": Kind.ANSWER,
    "presence_penalty": Kind.ANSWER,
    "frequency_penalty": Kind.ANSWER,
    "repetition_penalty": Kind.ANSWER,
    "logit_bias": Kind.ANSWER,
    "logprobs": Kind.ANSWER,
    "top_logprobs": Kind.ANSWER,
    "prompt_logprobs": Kind.ANSWER,
    "return_token_ids": Kind.ANSWER,
    "enable_response_messages": Kind.ANSWER,
    "include": Kind.ANSWER,
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
    "reasoning": Kind.ANSWER,
    "text": Kind.ANSWER,
    "truncation": Kind.ANSWER,
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
# All but ANSWER, so that what is not listed is in; the model stands in the material in a form of its own.
_NOT_IN_FIELDS = frozenset(name for name, kind in FIELDS.items() if kind is not Kind.ANSWER) | {"model"}


_TOKENS_TOLD = ("logprobs", "prompt_logprobs", "echo", "return_token_ids", "enable_response_messages")


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
    dialect: Dialect,
    principal: Principal,
    version: Version,
    controls: Controls,
    cues: CuePolicy = _USUAL_CUES,
) -> Plan:
    """Pure. Raises InvalidRequest where the body is not a request of that dialect at all."""
    asked = dialect.ask(values)
    if controls.mode == "off":
        return Plan(bypass="mode-off")
    if not (controls.reads or controls.stores):
        return Plan(bypass="no-store")
    if (reason := _side_effect(values)) is not None:
        return Plan(bypass=reason)
    if asked.bypass is not None:
        return Plan(bypass=asked.bypass)
    fuzzy = asked.fuzzy
    cue = find_cue(fuzzy.text)
    treatment = "semantic" if cue is None else cues.treatments[cue]
    if treatment == "bypass":
        return Plan(bypass=cue)
    question = dialect.question
    namespace, material = identity_of(
        values,
        endpoint=dialect.endpoint,
        principal=principal,
        version=version,
        controls=controls,
        without=(question,),
        also={question: asked.rest, "fuzzy": fuzzy.place},
    )
    return Plan(
        namespace=namespace,
        material=material,
        text=fuzzy.text,
        skip_semantic=_skip_semantic(values, fuzzy, controls) or (cue if treatment == "exact" else None),
        most_ttl_s=cues.time_bound_ttl_s if cue == "time-bound" and treatment == "exact" else None,
    )


def identity_of(
    values: Mapping[str, Json],
    *,
    endpoint: str,
    principal: Principal,
    version: Version,
    controls: Controls,
    without: Collection[str],
    also: Mapping[str, Json],
) -> tuple[str, bytes]:
    """The namespace, and in canonical form all that must match exactly: fields but for those `without`, and `also`."""
    tenant = _pool_of(principal)
    material = canonical(
        {
            "format": 2,
            "endpoint": endpoint,
            "tenant": tenant,
            "scope": _scope(values, principal),
            "namespace": controls.namespace,
            "model": version.model,
            "revision": version.revision,
            "fields": {
                name: value
                for name, value in values.items()
                if name not in without and name not in _NOT_IN_FIELDS
            },
            **also,
        }
    )
    return f"{tenant}/{controls.namespace}/{version.model}", material.encode()


def _side_effect(values: dict[str, Json]) -> str | None:
    for name in _SIDE_EFFECTS:
        if values.get(name) not in (None, False):
            return f"side-effect-{name.replace('_', '-')}"
    return None


def _pool_of(principal: Principal) -> str:
    """The tenant; or, where its admin opted into the shared pool, a name that no tenant can have."""
    return "*" if principal.shared_pool and principal.cache_scope == "tenant" else principal.tenant


def _scope(values: Mapping[str, Json], principal: Principal) -> list[Json]:
    match principal.cache_scope:
        case "tenant":
            return []
        case "service":
            return [principal.service]
        case "user":
            return [principal.service, values.get("user"), values.get("safety_identifier")]


def _skip_semantic(values: dict[str, Json], fuzzy: Fuzzy, controls: Controls) -> str | None:
    if controls.mode == "exact":
        return "mode-exact"
    if fuzzy.skip is not None:
        return fuzzy.skip
    if values.get("n") not in (None, 1) or values.get("best_of") not in (None, 1):
        return "several-choices"
    temperature = values.get("temperature")
    if isinstance(temperature, int | float) and temperature > 1:
        return "temperature"
    if _is_about_tokens(values):
        return "logprobs"
    return "payload" if _is_payload(fuzzy.text) else None


def _is_about_tokens(values: dict[str, Json]) -> bool:
    """Will the reply speak of the very tokens, of the very prompt even? For these a 0 is a wish, too."""
    if any(values.get(name) is not None and values[name] is not False for name in _TOKENS_TOLD):
        return True
    included = values.get("include")
    return isinstance(included, list) and "message.output_text.logprobs" in included


def _is_payload(text: str) -> bool:
    """Does the text carry material to work on (code, a table, a long document) rather than ask a question?

    Two such texts can be near in meaning and differ in the one line that matters.
    """
    return "```" in text or text.count("\n") > 8
