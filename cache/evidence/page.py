"""One namespace as a worker has it: how it stands, and what was found out about it here and not sent yet."""

from __future__ import annotations

from collections.abc import Iterable

from ..acceptance import Reading, WordStatistics
from ..identity import namespace_tag
from .drift import Lengths, length
from .events import Event, Row, Traffic, Words
from .learning import Weights
from .ruling import Ruling


class Keys:
    def __init__(self, secret: bytes, namespace: str) -> None:
        self.prefix = f"eg:{{ev:{namespace_tag(secret, namespace).hex()}}}:"
        self.version, self.ledger, self.published, self.events, self.lease = (
            self.prefix + name for name in ("version", "ledger", "standing", "events", "lease")
        )


class Page:
    """One namespace: its ruling, and what was found out and not sent yet."""

    def __init__(self, namespace: str, ruling: Ruling, *, secret: bytes) -> None:
        self.namespace = namespace
        self.ruling = ruling
        self.keys = Keys(secret, namespace)
        self.pending: list[Event] = []
        self.traffic: list[Row] = []
        self.words = WordStatistics(secret)
        self.lengths = Lengths()
        self.version = b"0"
        self.is_named = False
        self.has_unsettled = False  # events were sent that may not be added up yet
        self.is_due = False  # to be judged anew without any

    def take(self, secret: bytes, *, at_s: float) -> list[Event]:
        taken = self.pending
        if self.traffic:
            taken.append(Traffic(tuple(self.traffic)))
        if self.words.texts:
            taken.append(Words(self.words.texts, dict(self.words.counts), self.lengths, at_s))
        self.pending, self.traffic, self.words, self.lengths = [], [], WordStatistics(secret), Lengths()
        return taken

    def note_text(self, reading: Reading) -> None:
        self.words.add(reading.words)
        self.lengths += length(reading)


def lent_to(page: Page, pages: Iterable[Page]) -> Weights | None:
    """What others among these may lend to the namespace: what the one with most audits of its own has learned."""
    beginning = page.ruling.rules.borrow_from
    if not beginning:
        return None
    others = [other for other in pages if other is not page and other.namespace.startswith(beginning)]
    lenders = [other.ruling.standing.weights for other in others if other.ruling.standing.state == "on"]
    own = [weights for weights in lenders if weights is not None and not weights.is_borrowed]
    return max(own, key=lambda weights: weights.audits, default=None)
