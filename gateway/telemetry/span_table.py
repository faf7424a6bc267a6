"""The table of spans: their names, attributes and meanings. A name that is not in here does not exist."""

from __future__ import annotations

from dataclasses import dataclass

ATTRIBUTES: dict[str, str] = {
    "echogate.backend": "Name of the pool's member that was asked",
    "echogate.backend.attempt": "Number of the attempt, from 1",
    "echogate.backend.candidates": "Members as the choice saw them, `name=load score`, lowest is best",
    "echogate.backend.error": "Why the attempt failed, a machine word: connect, timeout, reset, status, …",
    "echogate.backend.first_byte_ms": "Time from sending the request to the first byte of the answer",
    "echogate.cache.candidates": "Stored questions near enough to be judged",
    "echogate.cache.cluster": "Part of the index that the nearest stored question lies in, cluster_<number>",
    "echogate.cache.entry_id": "The entry, as in the header x-cache-id",
    "echogate.cache.hit": "Whether there is such an entry, and it may answer",
    "echogate.cache.hits": "How many of the inputs of a batch were stored",
    "echogate.cache.inputs": "How many inputs the batch has",
    "echogate.cache.neighbours": "Stored questions the search found",
    "echogate.cache.outcome": "The header x-cache: HIT-EXACT, HIT-SEMANTIC, MISS, BYPASS or REFRESH",
    "echogate.cache.reason": "Why there was no hit, or which rule accepted or refused, a machine word",
    "echogate.cache.similarity": "Cosine of the question and the nearest stored one, -1 to 1",
    "echogate.cache.stored": "Whether the answer was stored",
    "echogate.cache.threshold": "Least similarity that would have been accepted",
    "echogate.cache.tier": "Which tier answered: exact, normalised, canonical, semantic or alias",
    "echogate.client_request_id": "The caller's own X-Request-Id",
    "echogate.key_id": "Public id of the key; the secret is nowhere",
    "echogate.limit.allowed": "Whether the limiter let the request pass",
    "echogate.limit.local": "Whether this worker's share of the limit was used because the store was away",
    "echogate.limit.remaining": "Requests left in the bucket",
    "echogate.outcome": "ok, client_error, client_closed or error",
    "echogate.request_id": "The id of the request, as in the header x-echogate-request-id",
    "echogate.service": "Service of the key",
    "echogate.tenant": "Tenant of the key",
    "echogate.time_to_first_byte_ms": "Time from the request's arrival to the answer's first content",
    "echogate.trace.kept": "`tail`: not sampled, kept because the request failed or was slow",
    "error.type": "What failed, a machine word or an HTTP status",
    "gen_ai.operation.name": "chat (of chats, responses and messages), text_completion, embeddings, or the name of "
    "what is handed on, such as rerank",
    "gen_ai.provider.name": "vllm",
    "gen_ai.request.model": "The public model name on the server span, the backend's on the client span",
    "gen_ai.request.stream": "Whether the answer was asked for as a stream",
    "gen_ai.usage.input_tokens": "Tokens of the prompt, as the backend counted them",
    "gen_ai.usage.output_tokens": "Tokens of the answer, as the backend counted them",
    "http.request.method": "POST or GET",
    "http.response.status_code": "Status sent to the caller (499: it left); on client spans the backend's",
    "http.route": "The path of the endpoint",
    "url.path": "The path of the endpoint",
    "url.scheme": "http",
}


@dataclass(frozen=True, slots=True)
class SpanFact:
    """A row of the table: a span's name, its parent's, and when there is one."""

    name: str
    kind: str
    parent: str
    meaning: str
    attributes: tuple[str, ...]


SERVER_ATTRIBUTES = (
    "http.request.method",
    "http.route",
    "url.path",
    "url.scheme",
    "http.response.status_code",
    "error.type",
    "gen_ai.request.model",
    "gen_ai.request.stream",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "echogate.request_id",
    "echogate.client_request_id",
    "echogate.tenant",
    "echogate.service",
    "echogate.key_id",
    "echogate.outcome",
    "echogate.backend",
    "echogate.cache.outcome",
    "echogate.cache.reason",
    "echogate.cache.similarity",
    "echogate.cache.entry_id",
    "echogate.time_to_first_byte_ms",
    "echogate.trace.kept",
)

SPANS: tuple[SpanFact, ...] = (
    SpanFact(
        "POST /v1/chat/completions",
        "SERVER",
        "the caller's",
        "The whole request; those of other endpoints by their paths",
        SERVER_ATTRIBUTES,
    ),
    SpanFact("auth.authenticate", "INTERNAL", "server", "Who asks", ("error.type",)),
    SpanFact(
        "auth.limit",
        "INTERNAL",
        "server",
        "May they now",
        ("echogate.limit.allowed", "echogate.limit.remaining", "echogate.limit.local", "error.type"),
    ),
    SpanFact(
        "cache.lookup",
        "INTERNAL",
        "server",
        "Has this been answered; on a hit linked to the trace that made the answer",
        (
            "echogate.cache.tier",
            "echogate.cache.reason",
            "echogate.cache.similarity",
            "echogate.cache.threshold",
            "echogate.cache.entry_id",
            "echogate.cache.inputs",
            "echogate.cache.hits",
        ),
    ),
    SpanFact("cache.exact", "INTERNAL", "cache.lookup", "The look-up by digest", ("echogate.cache.hit",)),
    SpanFact(
        "cache.canonical",
        "INTERNAL",
        "cache.lookup",
        "The stored question of the same canonical form, where there is one",
        ("echogate.cache.hit", "echogate.cache.reason"),
    ),
    SpanFact(
        "cache.embed",
        "INTERNAL",
        "cache.lookup",
        "The embedding, its wait in the queue included",
        ("echogate.cache.reason", "error.type"),
    ),
    SpanFact(
        "cache.search",
        "INTERNAL",
        "cache.lookup",
        "The nearest stored questions",
        ("echogate.cache.neighbours", "echogate.cache.cluster"),
    ),
    SpanFact(
        "cache.accept",
        "INTERNAL",
        "cache.lookup",
        "Are they the same question",
        ("echogate.cache.candidates", "echogate.cache.threshold"),
    ),
    SpanFact(
        "backend.route",
        "INTERNAL",
        "server",
        "The choice of a member; one per attempt",
        ("echogate.backend", "echogate.backend.attempt", "echogate.backend.candidates"),
    ),
    SpanFact(
        "chat <model>",
        "CLIENT",
        "server",
        "One call to a backend (`text_completion <model>` for a completion); the parent of what the backend records",
        (
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.request.stream",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "http.response.status_code",
            "echogate.backend",
            "echogate.backend.attempt",
            "echogate.backend.first_byte_ms",
            "echogate.backend.error",
            "error.type",
        ),
    ),
    SpanFact(
        "cache.wait",
        "INTERNAL",
        "server",
        "Waiting for an answer that another process is being given; served with it or not",
        ("echogate.cache.hit",),
    ),
    SpanFact(
        "cache.store",
        "INTERNAL",
        "server",
        "Storing the answer; may end after the request",
        ("echogate.cache.stored", "echogate.cache.reason"),
    ),
)
