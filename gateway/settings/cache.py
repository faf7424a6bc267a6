"""The cache's part of the configuration: its keys, defaults and bounds. Pure, like settings/sections.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from .pools import normal_base_url
from .sections import Section

NamespaceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9._-]{1,64}$")]
# YAML 1.1 reads a bare `off` as false.
_Mode = Annotated[
    Literal["semantic", "shadow", "exact", "off"],
    BeforeValidator(lambda mode: "off" if mode is False else mode),
]
_Keeping = Annotated[
    Literal["semantic", "exact", "off"],
    BeforeValidator(lambda keeping: "off" if keeping is False else keeping),
]
_Replay = Literal["instant", "natural"]
_Treatment = Literal["semantic", "exact", "bypass"]
_Budget = Annotated[float, Field(gt=0, le=0.5)]
_Cosine = Annotated[float, Field(ge=-1, le=1)]
_Seconds = Annotated[float, Field(gt=0, lt=10**9)]  # as in `cache.ttl` of a request


class EmbedderSettings(Section):
    """`model`: a prepared folder (onnx; null means the data folder's), a sentence-transformers name, or that of a model
    at the endpoint `url` (http), which reads `window` tokens and makes vectors of `dimension` numbers. `next` is
    the one to follow: what is kept is embedded by it, too, while this one serves."""

    kind: Literal["onnx", "sentence_transformers", "http", "none"] = "onnx"
    precision: Literal["int8", "fp32"] = "int8"
    model: str | None = None
    url: Annotated[str, AfterValidator(normal_base_url)] | None = None
    revision: Annotated[str, Field(max_length=128)] = ""
    dimension: Annotated[int, Field(ge=8, le=8192)] | None = None
    window: Annotated[int, Field(ge=16, le=131_072)] = 512
    api_key_env: str | None = None
    timeout_ms: Annotated[float, Field(gt=0, le=60_000)] = 2_000.0
    next: EmbedderSettings | None = None

    @model_validator(mode="after")
    def _named(self) -> EmbedderSettings:
        if self.kind == "sentence_transformers" and self.model is None:
            raise ValueError("sentence_transformers needs cache.embedder.model, a model name or folder")
        if self.kind == "http" and None in (self.url, self.model, self.dimension):
            raise ValueError(
                "http needs cache.embedder.url, the endpoint, with .model, the model's name there, and .dimension, how "
                "many numbers its vectors have"
            )
        if self.next is not None and self.next.next is not None:
            raise ValueError("only one embedder can follow: remove next.next")
        return self


class CueSettings(Section):
    """What becomes of a question whose words say that its answer is one person's, of its moment, …: shared like any
    other, matched exactly only, or neither read nor stored."""

    personal: _Treatment = "exact"
    time_bound: _Treatment = "exact"
    time_bound_ttl_s: _Seconds = 300.0
    freshness: _Treatment = "bypass"
    low_information: _Treatment = "exact"


class AnswerSettings(Section):
    """Which kinds of answers are kept: for similar questions too, for the very question only, or not at all."""

    text: _Keeping = "semantic"
    reasoning: _Keeping = "semantic"
    tool_calls: _Keeping = "exact"
    refusals: _Keeping = "exact"


class AuditSettings(Section):
    """How many answers are checked, and what that may cost. `judge` is `agreement`, or the public name of a model."""

    shadow_share: Annotated[float, Field(ge=0, le=1)] = 0.3
    served_share: Annotated[float, Field(ge=0, le=1)] = 0.02
    judge: str = "agreement"
    per_minute: Annotated[int, Field(ge=1, le=100_000)] = 600
    calls_per_hour: Annotated[int, Field(ge=0, le=1_000_000)] = 600


class QuotaSettings(Section):
    """What one tenant's answers may take in `store.cache`; beyond it, what expires first goes first."""

    mib: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    entries: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1_000_000


class IndexSettings(Section):
    """Of a worker's vectors: how they are kept, what they may take, and what share of the nearest must be found."""

    storage: Literal["float32", "float16", "int8"] = "float32"
    memory_mib: Annotated[int, Field(ge=1, le=1_000_000)] = 512
    recall: Annotated[float, Field(ge=0.5, le=1)] = 0.99


class NamespaceSettings(Section):
    """What one namespace has otherwise than the rest of the cache; null: nothing."""

    mode: _Mode | None = None
    policy: Literal["guarded", "learned", "fixed"] | None = None
    threshold: _Cosine | None = None
    budget: _Budget | None = None
    strict: bool | None = None
    borrow: bool | None = None
    ttl_s: _Seconds | None = None
    cues: CueSettings | None = None
    answers: AnswerSettings | None = None
    replay: _Replay | None = None


class CacheSettings(Section):
    mode: _Mode = "semantic"
    policy: Literal["guarded", "learned", "fixed"] = "guarded"
    threshold: _Cosine = 0.95
    budget: _Budget = 0.02
    strict: bool = False
    borrow: bool = False
    ttl_s: _Seconds = 86_400.0
    semantic_deadline_ms: Annotated[float, Field(gt=0)] = 250.0
    max_entry_kib: Annotated[int, Field(ge=1, le=65_536)] = 1024
    scope: Literal["tenant", "service", "user"] = "tenant"
    claim_ms: Annotated[int, Field(ge=0, le=60_000)] = 2_000
    snapshot_every_s: Annotated[float, Field(ge=1, le=86_400)] | None = 300.0
    old_versions_kept_s: Annotated[float, Field(ge=0, le=31 * 86_400)] | None = 3_600.0
    decisions_kept_s: Annotated[int, Field(ge=60, le=86_400)] = 3_600
    embedder: EmbedderSettings = EmbedderSettings()
    index: IndexSettings = IndexSettings()
    cues: CueSettings = CueSettings()
    answers: AnswerSettings = AnswerSettings()
    replay: _Replay = "instant"
    audits: AuditSettings = AuditSettings()
    quota: QuotaSettings = QuotaSettings()
    quotas: dict[str, QuotaSettings] = Field(default={})
    namespaces: dict[NamespaceName, NamespaceSettings] = Field(default={})

    def of(self, namespace: str) -> CacheSettings:
        """As it is in this namespace."""
        own = self.namespaces.get(namespace)
        if own is None:
            return self
        return self.model_copy(update={name: value for name, value in own if value is not None})
