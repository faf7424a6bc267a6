"""Notices that a namespace's questions have changed: other lengths, or signs that the embedder does not know.

Lengths in tokens follow a Gamma distribution well enough to compare two windows by the divergence of two fits. Tokens
are what `read` finds in a text, its different words and its signs, so that they are the same for every embedder; the
signs (emoji, letters of scripts that it was not made for) count as unknown. An alarm is no proof of wrong answers: it
says that older audits were of other questions, and should not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..acceptance import Reading

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


def length(reading: Reading) -> Lengths:
    """Of one text."""
    unknown = len(reading.symbols)
    tokens = max(1, len(reading.words) + unknown)
    return Lengths(1, tokens, math.log(tokens), unknown)


@dataclass(frozen=True, slots=True)
class Drift:
    """`reference` is compared with; `present` fills up, since `began_s`. `divergence` and `unknown` (by how much the
    share of unknown tokens grew) are those of the last full window. What was found out before `changed_s`, when the
    last window that raised an alarm began, was of other questions."""

    reference: Lengths = Lengths()
    present: Lengths = Lengths()
    began_s: float = 0.0
    divergence: float = 0.0
    unknown: float = 0.0
    alarms: int = 0
    changed_s: float = 0.0

    def with_texts(self, more: Lengths, *, at_s: float) -> Drift:
        """`alarms` is one more where these filled a window that differs too much; it is then the new reference."""
        present = self.present + more
        began_s = self.began_s if self.present.texts else at_s
        if present.texts < WINDOW:
            return replace(self, present=present, began_s=began_s)
        if not self.reference.texts:
            return replace(self, reference=present, present=Lengths())
        apart = divergence(present, self.reference)
        grown = present.unknown_share - self.reference.unknown_share
        judged = replace(self, present=Lengths(), divergence=apart, unknown=grown)
        if apart > ALARM or grown > MOST_UNKNOWN:
            return replace(judged, reference=present, alarms=self.alarms + 1, changed_s=began_s)
        return judged


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
