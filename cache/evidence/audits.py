"""Checks stored answers against fresh ones, behind the path: draws which, has them judged, notes what came of it.

A miss with a near neighbour already has its fresh answer: comparing the two costs no call to a model (`shadow`). Of
hits a fresh answer must be asked for, which is the composer's part (`served`). What does not fit the bounds is not
audited, and counted.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Literal

from ..acceptance import Around, first_veto, read
from ..acceptance.features import ALONE
from ..errors import StoreUnavailable
from ..interfaces import EntryStore, Exchange, Judge
from ..model import Answer, Entry, Hit, Near, Question, Ticket, Value
from .books import Books
from .events import Aliased, Audit, Raised, Reported, Row
from .ruling import Ruling, row_in
from .standing import Rules

_WAITING = 256
_FETCH_S = 1.0
_MINUTE_S = 60.0
_LONGEST_ANSWER = 20_000  # characters: beyond it no judge reads on
_LONGEST_QUESTION = 2_000  # characters, to count its words
# What is matched by meaning, or would be if the embedder could read it: that its questions have become others is what a
# namespace must notice.
_OF_THE_NAMESPACE = frozenset({None, "unknown-tokens"})


class Sampling(Value, frozen=True):
    """`shadow_share` of misses with a near neighbour are judged, at most `per_minute` judgements in all."""

    shadow_share: float = 0.3
    per_minute: int = 600


class Counts:
    """What became of audits, since the start."""

    def __init__(self) -> None:
        self.judged = 0
        self.unjudged = 0  # the judge could not tell
        self.dropped = 0  # the queue was full, the rate reached, or no fresh answer to be had


class _Work(Value, frozen=True):
    _unsaid = frozenset({"fresh", "stored"})

    question: Question
    fresh: str
    near: Near
    question_id: int
    source: Literal["shadow", "served"]
    draw: float
    stored: Entry | None = None
    row: Row | None = None  # what it was scored by, where it was


class Audits:
    """The evidence of this worker, as the cache sees it. The owner runs `run` and cancels it."""

    def __init__(
        self,
        books: Books,
        entries: EntryStore,
        judge: Judge,
        *,
        sampling: Sampling,
        rng: random.Random,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.books = books
        self.counts = Counts()
        self._entries = entries
        self._judge = judge
        self._sampling = sampling
        self._rng = rng
        self._now = now
        self._wall = wall
        self._waiting: asyncio.Queue[_Work | Question] = asyncio.Queue(_WAITING)
        self._minute = 0.0
        self._this_minute = 0

    def __repr__(self) -> str:
        return f"Audits({self._judge.name}, {self._waiting.qsize()} waiting, {self.books!r})"

    @property
    def waiting(self) -> int:
        return self._waiting.qsize()

    def of(self, namespace: str) -> Ruling:
        return self.books.of(namespace)

    def note_hit(self, question: Question, row: Row | None) -> None:
        """A similar question's answer was served; `row` is what the pair was scored by. Returns at once."""
        if row is not None:
            self.books.note_traffic(question.partition.namespace, row)
        self._put(question)

    def note_stored(self, ticket: Ticket, answer: Answer) -> None:
        """A question got its answer. Returns at once; what is done with it waits for its turn."""
        if ticket.question.skip_semantic not in _OF_THE_NAMESPACE:
            return
        self._put(ticket.question)
        if ticket.near is not None and self._rng.random() < self._sampling.shadow_share:
            draw = self._sampling.shadow_share
            self._put(_Work(ticket.question, answer.text, ticket.near, ticket.entry_id, "shadow", draw))

    def note_served(self, question: Question, hit: Hit, fresh: str, *, question_id: int, draw: float) -> None:
        """A semantic hit was drawn with this probability, and a backend asked the same."""
        known = hit.verdict.features if hit.verdict is not None else {}
        support, rival = int(known.get("support", ALONE.support)), known.get("rival", ALONE.rival)
        near = Near(hit.entry.entry_id, hit.similarity, True, support, rival, hit.alias_id)
        row = None if hit.verdict is None else row_in(hit.verdict)
        self._put(_Work(question, fresh, near, question_id, "served", draw, hit.entry, row))

    async def run(self) -> None:
        while True:
            work = await self._waiting.get()
            if isinstance(work, Question):
                self.books.note_text(work.partition.namespace, read(work.text[:_LONGEST_QUESTION]))
                await asyncio.sleep(0)  # a queue that is full gives nobody else a turn
            else:
                await self._audit(work)

    def _put(self, work: _Work | Question) -> None:
        try:
            self._waiting.put_nowait(work)
        except asyncio.QueueFull:
            self.counts.dropped += isinstance(work, _Work)

    async def _audit(self, work: _Work) -> None:
        stored = work.stored or await self._fetch(work)
        if stored is None or stored.question == work.question.text:
            return  # gone meanwhile
        if not self._may_judge() or max(len(work.fresh), len(stored.answer.text)) > _LONGEST_ANSWER:
            self.counts.dropped += 1
            return
        exchange = Exchange(work.question.text, work.fresh, stored.question, stored.answer.text)
        try:
            is_right = await self._judge.agrees(exchange)
        except Exception:  # a judge is outside: what it raises is no finding, and must not end the audits
            is_right = None
        if is_right is None:
            self.counts.unjudged += 1
            return
        self.counts.judged += 1
        self._note(work, stored, is_right)

    def _note(self, work: _Work, stored: Entry, is_right: bool) -> None:
        namespace, near = work.question.partition.namespace, work.near
        ruling = self.books.of(namespace)
        new, old = read(work.question.text), read(stored.question)
        # What a veto refuses is never scored, so nothing is learned from it; nor is its entry worse for others.
        is_scored = ruling.rules.policy == "fixed" or first_veto(new, old) is None
        if is_scored:
            audit = Audit(
                row=work.row or ruling.row(new, old, near.similarity, Around(near.support, near.rival)),
                is_right=is_right,
                source=work.source,
                draw=work.draw,
                would_serve=near.would_serve,
                similarity=near.similarity,
                judge=self._judge.name,
                at_s=self._wall(),
            )
            self.books.note(namespace, audit)
        if is_right:
            self.books.note(namespace, Aliased(work.question_id, stored.entry_id))
            return
        near_id = stored.entry_id if near.alias_id is None else near.alias_id
        self.books.note(namespace, Aliased(near_id, near_id))
        if is_scored:
            self.books.note(namespace, Raised(near_id, near.similarity, self._wall()))

    async def _fetch(self, work: _Work) -> Entry | None:
        deadline = self._now() + _FETCH_S
        try:
            found = await self._entries.fetch(
                work.question.partition, [work.near.entry_id], deadline=deadline
            )
        except StoreUnavailable:
            return None
        return found[0]

    def _may_judge(self) -> bool:
        now = self._now()
        if now - self._minute >= _MINUTE_S:
            self._minute, self._this_minute = now, 0
        self._this_minute += 1
        return self._this_minute <= self._sampling.per_minute

    async def report(
        self,
        namespace: str,
        *,
        pair: tuple[int, int],
        key: bytes,
        similarity: float | None = None,
        root_id: int | None = None,
    ) -> bool:
        """A caller says that this pair was wrong: it is blocked for good, here at once, and counted. False: the store
        has replicas, and none of them knows of it yet.

        `key` stands for the caller's key. With a similarity, the entry of the pair is to be served above it only.
        `root_id`: whose answer it was, where the entry of the pair was an alias; blocked as well. Raises OSError if
        the store does not take it.
        """
        others = [pair[1]] if root_id is None else [pair[1], root_id]
        is_replicated = await self.books.blocked.add(*((pair[0], other) for other in others))
        self.books.note(namespace, Reported(key, self._wall()))
        if similarity is not None:
            self.books.note(namespace, Raised(pair[1], similarity, self._wall()))
        return is_replicated


class Unaudited:
    """Stands where evidence would, for a cache of which nothing is learned: the same rules for all, for good."""

    def __init__(self, rules: Rules) -> None:
        self._ruling = Ruling(rules)

    def __repr__(self) -> str:
        return f"Unaudited({self._ruling!r})"

    def of(self, namespace: str) -> Ruling:
        return self._ruling

    def note_hit(self, question: Question, row: Row | None) -> None:
        """Nothing is learned."""

    def note_stored(self, ticket: Ticket, answer: Answer) -> None:
        """Nothing is audited."""

    async def report(
        self,
        namespace: str,
        *,
        pair: tuple[int, int],
        key: bytes,
        similarity: float | None = None,
        root_id: int | None = None,
    ) -> bool:
        """Blocked while this process lives; nothing is kept."""
        for other in (pair[1], root_id):
            if other is not None:
                self._ruling.blocked.add(pair[0], other)
        return True


Evidence = Audits | Unaudited


def nearest(
    question_id: int, neighbours: Sequence[tuple[int, float]], beside: Sequence[Around]
) -> Near | None:
    """The neighbour that a miss is worth comparing with; `beside` is what else is near those that are near enough."""
    for (entry_id, cosine), around in zip(neighbours, beside, strict=False):
        if entry_id != question_id:
            return Near(entry_id, cosine, support=around.support, rival=around.rival)
    return None
