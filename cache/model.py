"""What the cache speaks of: questions in partitions, answers, hits and misses.

Times are `time.monotonic()` seconds where they measure, wall-clock seconds (`…_at_s`) where they are kept.
Similarity is the cosine of unit vectors, in [-1, 1], everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]  # shape (dimension,), unit length


@dataclass(frozen=True, slots=True)
class Partition:
    """Everything about a request that must match exactly, as one keyed digest (32 bytes).

    `namespace` is the label that flushes, statistics and epochs go by; it is part of the digest's material.
    """

    namespace: str
    digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the cache: an exact partition and the one text that may be matched by meaning.

    `skip_semantic` names the reason why this text must only be matched exactly (None: no reason).
    `min_similarity` is the caller's own minimum cosine, added to whatever the policy asks.
    """

    partition: Partition
    text: str = field(repr=False)
    skip_semantic: str | None = None
    max_age_s: float | None = None
    min_similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Plain text for judging, opaque bytes for serving, and facts about its making (no content)."""

    text: str = field(repr=False)
    payload: bytes = field(repr=False)
    origin: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored answer with the question it was given to. `entry_id` is a stable 63-bit number."""

    entry_id: int
    question: str = field(repr=False)
    answer: Answer
    created_at_s: float
    expires_at_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is the stored question the same question? With everything needed to say why."""

    is_accepted: bool
    reason: str
    similarity: float
    threshold: float
    features: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a lookup with its times: "exact", "embed", "search", "accept"."""

    name: str
    started_s: float
    ended_s: float
    facts: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a miss read, so that a later store can be refused if anything was invalidated since."""

    question: Question
    entry_id: int
    epoch: bytes | None
    vector: Vector | None = field(default=None, repr=False)
    space: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Hit:
    tier: Literal["exact", "semantic"]
    entry: Entry
    similarity: float
    age_s: float
    steps: tuple[Step, ...]
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Miss:
    """`reason` is a short machine word: "absent", "below-threshold", "veto-number", "embedder-busy", …

    `ticket` is None where nothing may be stored (the store did not answer).
    """

    reason: str
    steps: tuple[Step, ...]
    ticket: Ticket | None = None
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a write. `reason`: "stored", or why not: "invalidated", "too-large", "store-down", …"""

    is_stored: bool
    reason: str
    steps: tuple[Step, ...]
