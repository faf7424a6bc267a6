"""Which endpoints of model servers are handed on, and what is to be known of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auth import Scope


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`path` is the server's own. `generates`: its tokens are reserved as those of an answer that is still to come.

    `is_sound`: what comes back may be sound, or text with times; of all others it is JSON or events.
    """

    path: str
    scope: Scope
    operation: str
    generates: bool = False
    is_form: bool = False
    is_sound: bool = False


# By the path they have here. Those of vLLM lie outside /v1 in part.
ENDPOINTS: Mapping[str, Endpoint] = {
    "/v1/messages": Endpoint("/v1/messages", "chat", "chat", generates=True),
    "/v1/messages/count_tokens": Endpoint("/v1/messages/count_tokens", "chat", "count_tokens"),
    "/v1/rerank": Endpoint("/v1/rerank", "embeddings", "rerank"),
    "/v2/rerank": Endpoint("/v2/rerank", "embeddings", "rerank"),
    "/v1/score": Endpoint("/v1/score", "embeddings", "score"),
    "/v1/pooling": Endpoint("/pooling", "embeddings", "pooling"),
    "/v1/classify": Endpoint("/classify", "embeddings", "classify"),
    "/v1/audio/transcriptions": Endpoint(
        "/v1/audio/transcriptions", "chat", "transcription", is_form=True, is_sound=True
    ),
    "/v1/audio/translations": Endpoint(
        "/v1/audio/translations", "chat", "translation", is_form=True, is_sound=True
    ),
    "/v1/audio/speech": Endpoint("/v1/audio/speech", "chat", "speech", is_sound=True),
}
# Always there: what they tell is about texts, and depends on nothing but the model.
TOKENS: Mapping[str, Endpoint] = {
    "/v1/tokenize": Endpoint("/tokenize", "chat", "tokenize"),
    "/v1/detokenize": Endpoint("/detokenize", "chat", "detokenize"),
}
