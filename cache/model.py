"""What the cache speaks of: questions in partitions, answers, hits and misses.

Times are `time.monotonic()` seconds where they measure, wall-clock seconds (`…_at_s`) where they are kept.
Similarity is the cosine of unit vectors, in [-1, 1], everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]  # shape (dimension,), unit length


class Value(msgspec.Struct, frozen=True):
    """Equal where its fields are. A Struct since a dozen are made in a look-up, and a frozen dataclass costs ten
    times as much to make."""

    _unsaid: ClassVar[frozenset[str]] = frozenset()  # fields that hold what people said: not for logs

    def __repr__(self) -> str:
        said = (name for name in self.__struct_fields__ if name not in self._unsaid)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in said)})"


class Partition(Value, frozen=True):
    """Everything about a request that must match exactly, as one keyed digest (32 bytes).

    `namespace` is the label that flushes, statistics and epochs go by; it is part of the digest's material. Its first
    segment (before a "/") is the owner, whom quotas go by.
    """

    _unsaid = frozenset({"digest", "source"})

    namespace: str
    digest: bytes
    source: bytes = b""  # a plain digest of the material, for who takes entries to another deployment

    @property
    def owner(self) -> str:
        return owner_of(self.namespace)


def owner_of(namespace: str) -> str:
    return namespace.partition("/")[0]


class Quota(Value, frozen=True):
    """What one owner may keep: bytes of records, and entries."""

    most_bytes: int = 4 << 30
    most_entries: int = 1_000_000

    @classmethod
    def of_anyone(cls, owner: str) -> Quota:
        return cls()


class Question(Value, frozen=True):
    """What is asked of the cache: an exact partition and the one text that may be matched by meaning.

    `skip_semantic` names the reason why this text must only be matched exactly (None: no reason).
    `min_similarity` is the caller's own minimum cosine, added to whatever the policy asks. `is_shadow`: a similar
    question's answer is looked for and judged, but not served.
    """

    _unsaid = frozenset({"text"})

    partition: Partition
    text: str
    skip_semantic: str | None = None
    max_age_s: float | None = None
    min_similarity: float | None = None
    is_shadow: bool = False


LITERAL: Mapping[str, str] = {"for": "very-text"}  # in the origin of an answer that copies from its question


class Answer(Value, frozen=True):
    """Plain text for judging, opaque bytes for serving, and facts about its making (no content). `tags` name what it
    has to do with (a key, a user, a version) by keyed digests, so that it is found by that."""

    _unsaid = frozenset({"text", "payload"})

    text: str
    payload: bytes
    origin: Mapping[str, str] = msgspec.field(default_factory=dict)
    tags: Mapping[str, bytes] = msgspec.field(default_factory=dict)

    @property
    def is_literal(self) -> bool:
        """Whether it is for the very text, and not for one typed otherwise. Its origin says so, wherever it is kept."""
        return LITERAL.items() <= self.origin.items()


class Entry(Value, frozen=True):
    """A stored answer with the question it was given to. `entry_id` is a stable 63-bit number."""

    _unsaid = frozenset({"question"})

    entry_id: int
    question: str
    answer: Answer
    created_at_s: float
    expires_at_s: float


class Verdict(Value, frozen=True):
    """Is the stored question the same question? With everything needed to say why."""

    is_accepted: bool
    reason: str
    similarity: float
    threshold: float
    features: Mapping[str, float] = msgspec.field(default_factory=dict)


class Step(Value, frozen=True):
    """A part of a lookup with its times: "exact", "embed", "search", "accept"."""

    name: str
    started_s: float
    ended_s: float
    facts: Mapping[str, str | int | float | bool] = msgspec.field(default_factory=dict)


class Near(Value, frozen=True):
    """The nearest stored question of a miss. `would_serve`: it was accepted, and only withheld (see `Ruling`).

    `support` and `rival` are what else was near it (see `acceptance.Around`). `alias_id`: the near one, where the
    answer compared is that of the entry that it is an alias of.
    """

    entry_id: int
    similarity: float
    would_serve: bool = False
    support: int = 0
    rival: float = 0.5
    alias_id: int | None = None


class Ticket(Value, frozen=True):
    """What a miss read, so that a later store can be refused if anything was invalidated since.

    `near` is what the answer, once there, can be compared with. `canonical_id`: under which the entry is found by
    questions of the same canonical form. `claim` is the token of a claim on the entry (claims.py), empty without one.
    """

    _unsaid = frozenset({"vector", "space"})

    question: Question
    entry_id: int
    epoch: bytes | None
    vector: Vector | None = None
    space: bytes | None = None
    near: Near | None = None
    canonical_id: int | None = None
    claim: bytes = b""


# How a stored question was found to be the same: character for character, typed otherwise, equal in its canonical form,
# near in meaning, or near to one that was found to share the answer.
Tier = Literal["exact", "normalised", "canonical", "semantic", "alias"]


class Hit(Value, frozen=True):
    """`similarity` is 1 where forms were compared and not vectors. `alias_id`: the near question's own entry, where it
    is an alias of the entry that answers."""

    tier: Tier
    entry: Entry
    similarity: float
    age_s: float
    steps: tuple[Step, ...]
    verdict: Verdict | None = None
    alias_id: int | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it is the very question, however typed: nothing had to be judged."""
        return self.tier in ("exact", "normalised")

    @property
    def reason(self) -> str | None:
        """None: the same, character for character."""
        if self.verdict is not None:
            return self.verdict.reason
        return None if self.tier == "exact" else self.tier


class Served(Value, frozen=True):
    """What a question was answered with: its own entry, or another's. `answer_id` is None where it was not a hit.
    `alias_id` as in `Hit`."""

    partition: Partition
    question_id: int
    entry_id: int
    answer_id: int | None = None
    similarity: float | None = None
    alias_id: int | None = None


class Rejected(Value, frozen=True):
    """What became of a report that an answer was wrong. Not `is_replicated`: the durable store has replicas, and none
    of them knows of it yet; it is in force nonetheless."""

    is_blocked: bool
    is_replicated: bool = True


class Miss(Value, frozen=True):
    """`reason` is a short machine word: "absent", "below-threshold", "veto-number", "embedder-busy", …

    `ticket` is None where nothing may be stored (the store did not answer). `verdict` is that on the nearest one.
    """

    reason: str
    steps: tuple[Step, ...]
    ticket: Ticket | None = None
    similarity: float | None = None
    verdict: Verdict | None = None


class Stored(Value, frozen=True):
    """What became of a write. `reason`: "stored", or why not: "invalidated", "too-large", "store-down", …"""

    is_stored: bool
    reason: str
    steps: tuple[Step, ...]
