"""Plays a labelled stream of questions through acceptance and learning: what would have been served, and how wrong.

The cache starts empty. A miss is answered, compared with its nearest stored question (a shadow audit: a judge call),
and stored, as an alias where the judge says the answers agree. Hits are audited at random. An entry that was once
wrong asks for more similarity than that offence. Everything decided is decided by the code that serves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..acceptance import WIDTH, Features, Reading, WordStatistics, around, features, first_veto, read
from ..index import FaissIndex
from .events import Audit, Traffic
from .learning import Weights, prior, score
from .ledger import Ledger, Standing, State
from .standing import Rules, assess

_NEIGHBOURS = 8
NEAR = 0.70  # what is farther is never served, nor worth a judge's call
_ALIASES = 32
_REFIT_EVERY = 50
_JUDGE = "label"

Judge = Callable[
    [bool, Features, random.Random], bool
]  # is it truly right, by what features; says whether it is


@dataclass(frozen=True, slots=True)
class Stream:
    """Texts in order, what each asks for (equal labels: the same answer will do), and their unit vectors."""

    texts: Sequence[str]
    labels: Sequence[object]
    vectors: NDArray[np.float32]

    def part(self, places: Sequence[int]) -> Stream:
        """What is at these places, in their order."""
        texts, labels = [self.texts[at] for at in places], [self.labels[at] for at in places]
        return Stream(texts, labels, self.vectors[np.array(places)])


@dataclass(frozen=True, slots=True)
class Course:
    """How a stream is served: by which rules, how large a share of hits and near misses is audited, and what another
    namespace lent. Nothing is audited under the policy `fixed`."""

    rules: Rules
    audited_hits: float = 0.02
    audited_misses: float = 1.0
    lent: Weights | None = None


@dataclass(slots=True)
class Outcome:
    """`mistakes` are pairs of places in the stream: the question, and the stored one whose answer it got. `weights`
    are those learned last."""

    requests: int = 0
    judge_calls: int = 0
    mistakes: list[tuple[int, int]] = field(default_factory=list)
    served: list[int] = field(default_factory=list)  # places in the stream
    states: list[tuple[int, State]] = field(default_factory=list)  # after so many requests
    weights: Weights | None = None

    @property
    def hits(self) -> int:
        return len(self.served)

    @property
    def first_serve(self) -> int | None:
        """The number of the request."""
        return self.served[0] + 1 if self.served else None

    @property
    def wrong(self) -> int:
        return len(self.mistakes)


def honest(is_right: bool, _: Features, __: random.Random) -> bool:
    return is_right


def replay(stream: Stream, course: Course, *, judge: Judge = honest, seed: int = 0) -> Outcome:
    run = _Run(stream, course, judge, random.Random(seed))  # noqa: S311 it draws samples, and must do so alike each time
    for at in range(len(stream.texts)):
        run.ask(at)
    return run.outcome


@dataclass(frozen=True, slots=True)
class _Candidate:
    """`place` in the stream is whose question is near; `root` whose answer it leads to."""

    place: int
    root: int
    found: Features
    veto: str | None
    score: float


class _Run:
    def __init__(self, stream: Stream, course: Course, judge: Judge, chance: random.Random) -> None:
        self.outcome = Outcome()
        rules = course.rules
        self._stream, self._course, self._judge, self._chance = stream, course, judge, chance
        self._is_audited = rules.policy != "fixed"
        self._words = WordStatistics()
        self._index = FaissIndex(stream.vectors.shape[1])
        self._roots: dict[int, int] = {}
        self._aliases: dict[int, int] = {}
        self._raised: dict[int, float] = {}
        self._ledger = Ledger(standing=Standing(state="learning" if rules.policy == "learned" else "on"))
        self._weights = prior(WIDTH).mean

    def ask(self, at: int) -> None:
        self.outcome.requests += 1
        reading = read(self._stream.texts[at])
        self._words.add(reading.words)
        near = self._near(at, reading)
        fit = [candidate for candidate in near if self._is_fit(candidate)]
        best = max(fit, key=lambda candidate: candidate.score, default=None)
        if best is not None and self._serves(best):
            self._hit(at, best)
        else:
            self._miss(at, best or next(iter(near), None))
        if self._is_audited and self.outcome.requests % _REFIT_EVERY == 0:
            self._settle()

    def _near(self, at: int, reading: Reading) -> list[_Candidate]:
        """Best cosine first."""
        nearest = self._index.search(self._stream.vectors[at], _NEIGHBOURS)
        near = [(place, cosine) for place, cosine in nearest if cosine >= NEAR]
        roots = [self._roots[place] for place, _ in near]
        found = []
        for number, (place, cosine) in enumerate(near):
            stored = read(self._stream.texts[place])
            beside = around(number, answers=roots, cosines=[cosine for _, cosine in near])
            common = features(reading, stored, cosine, self._words, beside)
            veto = None if self._course.rules.policy == "fixed" else first_veto(reading, stored)
            found.append(_Candidate(place, roots[number], common, veto, score(common.row(), self._weights)))
        return found

    def _is_fit(self, candidate: _Candidate) -> bool:
        return candidate.veto is None and candidate.found.cosine > self._raised.get(candidate.place, -1.0)

    def _serves(self, best: _Candidate) -> bool:
        rules, state = self._course.rules, self._ledger.standing.state
        is_withheld = state == "tripped" or (state == "learning" and rules.is_strict)
        return self._would_serve(best) and not is_withheld

    def _would_serve(self, best: _Candidate) -> bool:
        least = self._ledger.standing.least_score
        if self._course.rules.policy == "learned" and least is not None:
            return best.score >= least
        return best.found.cosine >= self._course.rules.threshold

    def _hit(self, at: int, best: _Candidate) -> None:
        outcome = self.outcome
        outcome.served.append(at)
        self._ledger.add([Traffic((best.found.row(),))])
        if not self._is_truly_right(at, best):
            outcome.mistakes.append((at, best.place))
        is_audited = self._is_audited and self._chance.random() < self._course.audited_hits
        if is_audited and not self._audit(at, best, is_served=True):
            self._store(at, root=at)

    def _miss(self, at: int, best: _Candidate | None) -> None:
        """A vetoed neighbour is audited too: not to learn from, but the question may become its alias."""
        root = at
        is_audited = self._is_audited and self._chance.random() < self._course.audited_misses
        if (
            best is not None
            and is_audited
            and self._audit(at, best, is_served=False)
            and self._aliases.get(best.root, 0) < _ALIASES
        ):
            root = best.root
            self._aliases[root] = self._aliases.get(root, 0) + 1
        self._store(at, root=root)

    def _audit(self, at: int, best: _Candidate, *, is_served: bool) -> bool:
        self.outcome.judge_calls += 1
        is_right = self._judge(self._is_truly_right(at, best), best.found, self._chance)
        if best.veto is None:
            source: Literal["served", "shadow"] = "served" if is_served else "shadow"
            draw = self._course.audited_hits if is_served else self._course.audited_misses
            would, cosine = self._would_serve(best), best.found.cosine
            audit = Audit(best.found.row(), is_right, source, draw, would, cosine, _JUDGE, float(at))
            self._ledger.add([audit])
            if not is_right:
                self._raised[best.place] = max(self._raised.get(best.place, -1.0), best.found.cosine)
        return is_right

    def _is_truly_right(self, at: int, best: _Candidate) -> bool:
        return self._stream.labels[at] == self._stream.labels[best.root]

    def _store(self, at: int, *, root: int) -> None:
        self._index.add(at, self._stream.vectors[at])
        self._roots[at] = root

    def _settle(self) -> None:
        course = self._course
        standing = assess(self._ledger, course.rules, at_s=float(self.outcome.requests), lent=course.lent)
        self._ledger.standing = standing
        self.outcome.states.append((self.outcome.requests, standing.state))
        if standing.weights is not None:
            self.outcome.weights = standing.weights
            self._weights = standing.weights.mean
