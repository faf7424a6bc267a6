"""Describes the data plane's paths in OpenAPI's terms, since FastAPI does not serve them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..data.endpoints import ENDPOINTS, TOKENS, Endpoint

_REQUEST_HEADERS = {
    "Cache-Control": (
        "`no-cache`: do not read the cache, but store the answer. `no-store`: neither. `max-age=N`: only answers "
        "younger than N seconds. `only-if-cached`: never ask a backend; a miss is a 504."
    ),
    "x-cache-mode": "`off`, `exact` or `semantic`: at most what the deployment allows.",
    "x-cache-namespace": "A namespace of your own, `[a-z0-9._-]{1,64}`.",
    "x-cache-replay": "`instant` or `natural`: how a stored answer is streamed.",
    "x-cache-threshold": "Least cosine similarity of a semantic hit, on top of the policy's own.",
    "x-echogate-session": "Requests of one session go to one backend, as long as it can be asked.",
    "X-Request-Id": "Your own id, up to 128 printable ASCII characters; it is echoed.",
    "traceparent": "W3C Trace Context: the request becomes part of your trace.",
}

_REPLY_HEADERS = {
    "x-request-id": "Your X-Request-Id, or Echogate's own id.",
    "x-echogate-request-id": "Echogate's id of this request.",
    "x-trace-id": "The trace this request is in.",
    "x-cache": "`HIT-EXACT`, `HIT-SEMANTIC`, `MISS`, `BYPASS` or `REFRESH`.",
    "x-cache-reason": "Why, in a machine word.",
    "x-cache-id": "The stored answer, on a hit.",
    "x-cache-similarity": "Cosine of your question and the stored one, on a hit.",
    "age": "Age of the stored answer in seconds, on a hit.",
    "x-echogate-backend": "The backend that answered.",
    "x-ratelimit-limit-requests": "Requests at once that the tightest limit of requests allows.",
    "x-ratelimit-remaining-requests": "Requests left of it now.",
    "x-ratelimit-reset-requests": "Time until it is whole again, such as `12ms` or `6m0s`.",
    "x-ratelimit-limit-tokens": "The tightest limit of tokens a minute, where there is one; so are the next two.",
    "x-ratelimit-remaining-tokens": "Tokens left of it now.",
    "x-ratelimit-reset-tokens": "Time until it is whole again.",
}

_ERRORS = {
    "400": "The body or a header is not what was expected; a key that comes twice in an object is refused too.",
    "401": "No key, two different keys, an unknown, disabled or expired one.",
    "403": "The key does not have the scope for this.",
    "404": "No such path, or no model of this name that the key may use.",
    "405": "Another method; `allow` names the right ones.",
    "408": "The body came too slowly.",
    "413": "The body is larger than `server.body_limit_mib`.",
    "415": "Another media type or encoding than is read here.",
    "429": "A limit of the key, its service or its tenant is reached; the message names it. See `retry-after`.",
    "502": "The backend broke off, on a second member too.",
    "503": "Keys or limits cannot be checked, or no backend can be tried.",
    "504": "The backend was too slow, or `only-if-cached` met a miss.",
}

_CHAT_REQUEST: dict[str, Any] = {
    "type": "object",
    "required": ["model", "messages"],
    "additionalProperties": True,
    "description": (
        "OpenAI's chat completion request. Fields Echogate does not know go to the backend byte for byte, and "
        "two requests that differ in any of them never share an answer. `cache` is LiteLLM's cache control."
    ),
    "properties": {
        "model": {"type": "string", "description": "The public name of a pool."},
        "messages": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
        "stream": {"type": "boolean", "default": False},
        "stream_options": {"type": "object", "properties": {"include_usage": {"type": "boolean"}}},
    },
    "example": {"model": "my-model", "messages": [{"role": "user", "content": "Why is the sky blue?"}]},
}

_COMPLETION_REQUEST: dict[str, Any] = {
    "type": "object",
    "required": ["model", "prompt"],
    "additionalProperties": True,
    "description": "OpenAI's completion request, treated as that of a chat. Only one text is matched by meaning.",
    "properties": {
        "model": _CHAT_REQUEST["properties"]["model"],
        "prompt": {"oneOf": [{"type": "string"}, {"type": "array"}]},
        "stream": {"type": "boolean", "default": False},
        "stream_options": _CHAT_REQUEST["properties"]["stream_options"],
    },
    "example": {"model": "my-model", "prompt": "The sky is blue because"},
}

_RESPONSE_REQUEST: dict[str, Any] = {
    "type": "object",
    "required": ["model", "input"],
    "additionalProperties": True,
    "description": (
        "OpenAI's response request, treated as that of a chat. What leans on the server's memory (`store`, "
        "`previous_response_id`, `conversation`, `background`) goes past the cache."
    ),
    "properties": {
        "model": _CHAT_REQUEST["properties"]["model"],
        "input": {
            "oneOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "object", "additionalProperties": True}},
            ]
        },
        "instructions": {"type": "string"},
        "stream": {"type": "boolean", "default": False},
    },
    "example": {"model": "my-model", "input": "Why is the sky blue?"},
}

_EMBEDDINGS_REQUEST: dict[str, Any] = {
    "type": "object",
    "required": ["model", "input"],
    "additionalProperties": True,
    "properties": {
        "model": _CHAT_REQUEST["properties"]["model"],
        "input": {"oneOf": [{"type": "string"}, {"type": "array", "minItems": 1}]},
        "encoding_format": {"enum": ["float", "base64"]},
        "dimensions": {"type": "integer", "minimum": 1},
    },
    "example": {"model": "my-model", "input": ["Why is the sky blue?"]},
}

_FEEDBACK_REQUEST: dict[str, Any] = {
    "type": "object",
    "required": ["request_id", "rating"],
    "additionalProperties": False,
    "properties": {"request_id": {"type": "string"}, "rating": {"enum": ["wrong"]}},
}

_MODEL_PARAMETER = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}

_ELSEWHERE = [{"url": "/", "description": "data plane (server.bind), not this listener"}]
_SECURED: list[dict[str, list[str]]] = [{"key": []}, {"x-api-key": []}]


def data_paths() -> dict[str, Any]:
    return {
        "/v1/chat/completions": _generating("Chat completion", _CHAT_REQUEST),
        "/v1/completions": _generating("Completion", _COMPLETION_REQUEST),
        "/v1/responses": _generating("Response", _RESPONSE_REQUEST),
        "/v1/embeddings": _asking(
            "Embeddings",
            "Each input is looked up for itself; a backend is asked for those that are new.",
            _json_body(_EMBEDDINGS_REQUEST),
            _json_reply("OpenAI's list of embeddings"),
        ),
        **{path: _handed_on(endpoint) for path, endpoint in {**TOKENS, **ENDPOINTS}.items()},
        "/v1/models": _telling(
            "The models that may be asked", "OpenAI's list of models", {"401", "403", "503"}
        ),
        "/v1/models/{model}": _telling(
            "One model", "OpenAI's model", {"401", "403", "404", "503"}, parameters=[_MODEL_PARAMETER]
        ),
        "/v1/me": _telling(
            "This key: what it may do, how its limits stand, what it used",
            "The key, without its secret",
            {"401", "503"},
        ),
        "/v1/cache/feedback": {
            "servers": _ELSEWHERE,
            "post": {
                "tags": ["data plane"],
                "summary": "That an answer from the cache was wrong",
                "description": "It is not given to that question again. 202: no replica of the store has it yet.",
                "security": _SECURED,
                "requestBody": _json_body(_FEEDBACK_REQUEST),
                "responses": {
                    **{status: _json_reply("What became of it") for status in ("200", "202")},
                    **_error_replies(_ERRORS.keys() - {"502", "504"}),
                },
            },
        },
    }


def _telling(
    summary: str, meaning: str, errors: Iterable[str], *, parameters: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """What is only read."""
    return {
        "servers": _ELSEWHERE,
        "get": {
            "tags": ["data plane"],
            "summary": summary,
            "security": _SECURED,
            "parameters": parameters or [],
            "responses": {"200": _json_reply(meaning), **_error_replies(errors)},
        },
    }


def _generating(summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    """An endpoint that generates text."""
    meaning = "Answered from the cache where an equal question was answered, else by a backend."
    return _asking(summary, meaning, _json_body(schema), _generated())


def _handed_on(endpoint: Endpoint) -> dict[str, Any]:
    """Its body is the model server's own matter."""
    schema = {
        "type": "object",
        "required": ["model"],
        "additionalProperties": True,
        "properties": {"model": _CHAT_REQUEST["properties"]["model"]},
    }
    body = {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    any_kind = {"description": "As the backend answers.", "content": {"*/*": {"schema": {}}}}
    return _asking(
        f"{endpoint.operation.replace('_', ' ').capitalize()}, handed on",
        "Never cached. A 404 where `server.pass_through` does not name it.",
        body if endpoint.is_form else _json_body(schema),
        any_kind,
    )


def _asking(summary: str, meaning: str, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """An endpoint behind which there are backends, whose own refusals may have any status."""
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "servers": _ELSEWHERE,
        "post": {
            "tags": ["data plane"],
            "summary": summary,
            "description": meaning,
            "security": _SECURED,
            "parameters": [_header(name, meaning) for name, meaning in _REQUEST_HEADERS.items()],
            "requestBody": body,
            "responses": {
                "200": answer,
                **_error_replies(_ERRORS),
                "default": {"description": "What the backend refused, in our shape.", "content": error},
            },
        },
    }


def _json_body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _generated() -> dict[str, Any]:
    return {
        "description": "OpenAI's object, or with `stream` its chunks or events as server-sent events.",
        "headers": {
            name: {"description": meaning, "schema": {"type": "string"}}
            for name, meaning in _REPLY_HEADERS.items()
        },
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/event-stream": {"schema": {"type": "object", "properties": {"data": {"type": "string"}}}},
        },
    }


def _json_reply(meaning: str) -> dict[str, Any]:
    return {"description": meaning, "content": {"application/json": {"schema": {"type": "object"}}}}


def _header(name: str, meaning: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": meaning, "schema": {"type": "string"}}


def _error_replies(statuses: Iterable[str]) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {
        status: {"description": _ERRORS[status], "content": {"application/json": {"schema": schema}}}
        for status in sorted(statuses)
    }
