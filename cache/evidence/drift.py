"""Notices that a namespace's questions have changed: other lengths, or words that the embedder does not know.

Lengths in tokens follow a Gamma distribution well enough to compare two windows by the divergence of two fits. An
alarm is no proof of wrong answers: it says that older audits were of other questions, and should not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ALARM = 0.12  # Kullback-Leibler divergence, in nats, of the present window from the reference
MOST_UNKNOWN = 0.02  # by so much the share of unknown tokens may grow
WINDOW = 250  # texts
_SMALLEST = 1e-9


@dataclass(frozen=True, slots=True)
class Lengths:
    """What a Gamma is fitted from, added up: of so many texts, in tokens. Two windows are merged by adding them."""

    texts: int = 0
    tokens: float = 0.0
    logs: float = 0.0
    unknown: float = 0.0

    def with_text(self, tokens: int, *, unknown: int = 0) -> Lengths:
        """`tokens` at least 1."""
        return self + Lengths(1, tokens, math.log(tokens), unknown)

    def __add__(self, other: Lengths) -> Lengths:
        return Lengths(
            self.texts + other.texts,
            self.tokens + other.tokens,
            self.logs + other.logs,
            self.unknown + other.unknown,
        )

    @property
    def unknown_share(self) -> float:
        return self.unknown / self.tokens if self.tokens else 0.0


@dataclass(frozen=True, slots=True)
class Drift:
    """`reference` is compared with; `present` fills up. `divergence` and `unknown` (by how much the share of unknown
    tokens grew) are those of the last full window."""

    reference: Lengths = Lengths()
    present: Lengths = Lengths()
    divergence: float = 0.0
    unknown: float = 0.0
    alarms: int = 0

    def with_text(self, tokens: int, *, unknown: int = 0) -> Drift:
        """`alarms` is one more where this text filled a window that differs too much; it is then the new reference."""
        present = self.present.with_text(tokens, unknown=unknown)
        if present.texts < WINDOW:
            return Drift(self.reference, present, self.divergence, self.unknown, self.alarms)
        if not self.reference.texts:
            return Drift(reference=present)
        apart = divergence(present, self.reference)
        grown = present.unknown_share - self.reference.unknown_share
        if apart > ALARM or grown > MOST_UNKNOWN:
            return Drift(present, Lengths(), apart, grown, self.alarms + 1)
        return Drift(self.reference, Lengths(), apart, grown, self.alarms)


def divergence(present: Lengths, reference: Lengths) -> float:
    """Of the two fitted Gamma distributions: 0 where they are the same."""
    (k, scale), (k0, scale0) = _gamma(present), _gamma(reference)
    apart = (k - k0) * _digamma(k) - math.lgamma(k) + math.lgamma(k0)
    return max(0.0, apart + k0 * math.log(scale0 / scale) + k * (scale - scale0) / scale0)


def _gamma(lengths: Lengths) -> tuple[float, float]:
    """Shape and scale of greatest likelihood, in Minka's closed approximation."""
    mean = lengths.tokens / lengths.texts
    spread = max(_SMALLEST, math.log(mean) - lengths.logs / lengths.texts)
    shape = (3 - spread + math.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
    return shape, mean / shape


def _digamma(x: float) -> float:
    below = 0.0
    while x < 6:  # the series is good from here on
        below -= 1 / x
        x += 1
    square = 1 / (x * x)
    return below + math.log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252))
