"""What is known of a namespace: the sum of all events, bounded, and how it stands by them. Pure.

One worker at a time adds events up and judges the sum (books.py); all others only read the standing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from ..model import Value
from .drift import Drift
from .events import Aliased, Audit, Event, Raised, Reported, Row, Traffic, Words
from .learning import Weights

_FORMAT = 1
_AUDITS = 6_000
_TRAFFIC = 1_000  # what came lately: a cache that fills, and gathers aliases, looks otherwise than before
_MOST_COPIES = 20
_WORDS = 8_192
_RAISED = 4_096
_ALIASES = 8_192
_ALIASES_OF_ONE = 32
_REPORTERS = 256

State = Literal["learning", "on", "tripped"]


class Share(Value, frozen=True):
    """Wrong ones among randomly drawn audits of hits and would-be hits, with the 90% Wilson interval."""

    wrong: int = 0
    audits: int = 0
    low: float = 0.0
    high: float = 1.0


Interval = tuple[float, float, float]  # a share, and the ends of its interval


class Standing(Value, frozen=True):
    """How a namespace stands: what every worker serves by, until the next version.

    `audits` and `reported_wrong` are all that ever were. `wrong_share` is what the judges found, `corrected` what that
    means after their own errors, where these are measured.
    `least_score` is None where no learned score may be served. `trusted_from_s`: older audits do not count any more.
    `divergence`, `unknown`, `drift_alarms`: how far, and how often, its questions have become others (see drift.py).
    """

    version: int = 0
    state: State = "learning"
    reason: str = "no-evidence"
    weights: Weights | None = None
    least_score: float | None = None
    wrong_share: Share = Share()
    judges: tuple[str, ...] = ()
    corrected: Interval | None = None
    audits: int = 0
    reported_wrong: int = 0
    since_s: float = 0.0
    trusted_from_s: float = 0.0
    divergence: float = 0.0
    unknown: float = 0.0
    drift_alarms: int = 0

    @property
    def evidence(self) -> Literal["own", "borrowed", "none"]:
        """Whose audits the weights were learned from."""
        if self.weights is None:
            return "none"
        return "borrowed" if self.weights.is_borrowed else "own"


UNAUDITED = Standing(state="on", reason="few-audits")  # where nothing need be learned first


class Ledger(msgspec.Struct):
    """`position` is the last event that is in it. `traffic`: hits, and misses near a stored question, as they came."""

    position: bytes = b"0-0"
    audits: list[Audit] = []
    traffic: list[Row] = []
    texts: int = 0
    words: dict[bytes, int] = {}
    raised: dict[int, tuple[float, float]] = {}
    aliases: dict[int, int] = {}
    reporters: dict[bytes, float] = {}
    drift: Drift = Drift()
    audited: int = 0
    reported_wrong: int = 0
    standing: Standing = Standing()

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Audit():
                    self.audited += 1
                    self.audits.append(event)
                    self.traffic.extend(_drawn_from(event))
                case Traffic(rows):
                    self.traffic.extend(rows)
                case Words():
                    self._read(event)
                case Raised(entry_id, similarity, at_s):
                    # Put last, so that the entry that offended longest ago is the first to be forgotten.
                    before, _ = self.raised.pop(entry_id, (similarity, at_s))
                    self.raised[entry_id] = max(before, similarity), at_s
                case Aliased(entry_id, root_id):
                    self._alias(entry_id, root_id)
                case Reported(key, at_s):
                    self.reported_wrong += 1
                    self.reporters[key] = at_s
        self._make_room()

    def _read(self, words: Words) -> None:
        self.texts += words.texts
        for word, count in words.counts.items():
            self.words[word] = self.words.get(word, 0) + count
        before, self.drift = self.drift, self.drift.with_texts(words.lengths, at_s=words.at_s)
        if self.drift.alarms > before.alarms:
            self.traffic.clear()  # hits of other questions

    def _alias(self, entry_id: int, root_id: int) -> None:
        """One deep: what others belong to belongs to nobody."""
        self.aliases.pop(entry_id, None)
        root = self.aliases.get(root_id, root_id)
        of_root = sum(each == root for each in self.aliases.values())
        is_root = any(each == entry_id for each in self.aliases.values())
        if root != entry_id and not is_root and of_root < _ALIASES_OF_ONE:
            self.aliases[entry_id] = root

    def _make_room(self) -> None:
        del self.audits[:-_AUDITS]
        del self.traffic[:-_TRAFFIC]
        if len(self.words) > _WORDS:
            kept = sorted(self.words.items(), key=lambda entry: -entry[1])[: _WORDS * 3 // 4]
            self.words = dict(kept)
        while len(self.raised) > _RAISED:
            del self.raised[next(iter(self.raised))]
        while len(self.aliases) > _ALIASES:
            del self.aliases[next(iter(self.aliases))]
        while len(self.reporters) > _REPORTERS:
            del self.reporters[next(iter(self.reporters))]


class Published(msgspec.Struct, frozen=True):
    """The part of a ledger that a worker needs to serve."""

    standing: Standing
    texts: int
    words: dict[bytes, int]
    raised: dict[int, tuple[float, float]]
    aliases: dict[int, int]


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    format: int
    ledger: Ledger


class _Sent(msgspec.Struct, frozen=True, array_like=True):
    format: int
    published: Published


_encoder = msgspec.msgpack.Encoder()
_kept = msgspec.msgpack.Decoder(_Kept)
_sent = msgspec.msgpack.Decoder(_Sent)


def _drawn_from(audit: Audit) -> list[Row]:
    """What those misses looked like that the audit was drawn from; hits are told of by themselves."""
    return [audit.row] * min(_MOST_COPIES, round(1 / audit.draw)) if audit.source == "shadow" else []


def encode(ledger: Ledger) -> bytes:
    return _encoder.encode(_Kept(_FORMAT, ledger))


def decode(data: bytes | None) -> Ledger:
    """An empty one where there is none, or one of another format: evidence can be gathered again."""
    try:
        kept = _kept.decode(data or b"")
    except msgspec.MsgspecError:
        return Ledger()
    return kept.ledger if kept.format == _FORMAT else Ledger()


def publish(ledger: Ledger) -> bytes:
    published = Published(ledger.standing, ledger.texts, ledger.words, ledger.raised, ledger.aliases)
    return _encoder.encode(_Sent(_FORMAT, published))


def published(data: bytes | None) -> Published | None:
    try:
        sent = _sent.decode(data or b"")
    except msgspec.MsgspecError:
        return None
    return sent.published if sent.format == _FORMAT else None


def wilson(wrong: int, audits: int, *, z: float = 1.645) -> Share:
    """`z` 1.645: 90%, two-sided."""
    if not audits:
        return Share()
    share, square = wrong / audits, z * z
    middle = (share + square / (2 * audits)) / (1 + square / audits)
    half = (
        z * math.sqrt(share * (1 - share) / audits + square / (4 * audits * audits)) / (1 + square / audits)
    )
    return Share(wrong, audits, max(0.0, middle - half), min(1.0, middle + half))
