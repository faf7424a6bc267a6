"""One look-up, from the question to a hit or a miss: exact, then embed and search, then accept.

The exact tier's command leaves with the object's making, so that it shares a round trip with the caller's
other store commands of that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from msgspec.structs import replace

from .acceptance import Around, read
from .acceptance.features import ALONE
from .embed import Embedded, EmbedQueue, NoEmbedder
from .errors import EmbedderBusy, StoreUnavailable, UnfitText
from .evidence import WITHHELD, Evidence, Ruling, nearest, row_in
from .identity import answer_id
from .index import Spaces
from .interfaces import EntryStore
from .model import Entry, Hit, Miss, Near, Question, Step, Ticket, Verdict

_EXACT = 1.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a look-up works with."""

    entries: EntryStore
    embed: EmbedQueue | NoEmbedder
    spaces: Spaces
    evidence: Evidence
    secret: bytes
    now: Callable[[], float]
    wall: Callable[[], float]


class _Judged(NamedTuple):
    entry: Entry
    verdict: Verdict
    beside: Around

    @property
    def is_fit(self) -> bool:
        """By the rules; it may be withheld nonetheless."""
        return self.verdict.is_accepted or self.verdict.reason in WITHHELD

    def score(self) -> float:
        """Where nothing is learned, the first that is fit is the only one."""
        return self.verdict.features.get("score", 0.0)


class Lookup:
    """Await `result` once, or leave it: a look-up that nobody awaits does no harm."""

    def __init__(
        self,
        parts: Parts,
        question: Question,
        *,
        entry_id: int,
        space: bytes,
        deadline: float,
        semantic_deadline_s: float,
    ) -> None:
        self._parts = parts
        self._question = question
        self._ruling: Ruling = parts.evidence.of(question.partition.namespace)
        self._space = space
        self._started = parts.now()
        self._store_budget_s = deadline - self._started
        self._semantic_deadline = self._started + semantic_deadline_s
        self._steps: list[Step] = []
        self._ticket = Ticket(question, entry_id, None, space=space)
        self._finding = parts.entries.find(question, entry_id, deadline=deadline)

    async def result(self) -> Hit | Miss:
        """The caller's cancellation leaves nothing behind: text still queued is not embedded."""
        try:
            found = await self._finding
        except StoreUnavailable:
            self._step("exact", self._started, is_hit=False)
            return Miss("store-down", tuple(self._steps))
        self._ticket = replace(self._ticket, epoch=found.epoch)
        reason = None if found.entry is None else self._why_not(found.entry)
        is_hit = found.entry is not None and reason is None
        self._step("exact", self._started, is_hit=is_hit)
        if found.entry is not None and is_hit:
            return self._hit("exact", found.entry, _EXACT)
        if skip := self._question.skip_semantic or self._parts.embed.skip_reason:
            return self._miss(skip)
        return await self._similar(exact_reason=reason or "absent")

    def cancel(self) -> None:
        """Not wanted any more, and not awaited: the store's answer is dropped when it comes."""
        self._finding.cancel()

    async def _similar(self, *, exact_reason: str) -> Hit | Miss:
        space = self._parts.spaces.find(self._space)
        if space is None:
            return self._miss(
                exact_reason
            )  # nothing to compare with: not worth embedding the text on the path
        started = self._parts.now()
        try:
            embedded = await self._parts.embed.embed(
                self._question.text, deadline=self._semantic_deadline, search=space.search
            )
        except UnfitText as error:
            # Remembered, so that the write does not try again.
            question = replace(self._question, skip_semantic=error.reason)
            self._ticket = replace(self._ticket, question=question)
            return self._failed(started, error.reason)
        except EmbedderBusy:
            return self._failed(started, "embedder-busy")
        except Exception as error:  # the embedder is outside: whatever it raises, the request goes on
            return self._failed(started, "embedder-error", error=type(error).__name__)
        self._ticket = replace(self._ticket, vector=embedded.vector)
        self._steps.append(Step("embed", embedded.started_s, embedded.embedded_s))
        self._steps.append(
            Step("search", embedded.embedded_s, embedded.ended_s, {"neighbours": len(embedded.neighbours)})
        )
        return await self._accept(embedded)

    async def _accept(self, embedded: Embedded) -> Hit | Miss:
        if not embedded.neighbours:
            return self._miss("absent")
        started = self._parts.now()
        beside = self._ruling.around(embedded.neighbours)
        self._ticket = replace(self._ticket, near=nearest(self._ticket.entry_id, embedded.neighbours, beside))
        best = embedded.neighbours[0][1]
        minimum = self._ruling.minimum(self._question)
        near = [(entry_id, cosine) for entry_id, cosine in embedded.neighbours if cosine >= minimum]
        if not near:
            self._step("accept", started, candidates=0, threshold=minimum)
            return self._miss("below-threshold", best)
        try:
            entries = await self._parts.entries.fetch(
                self._question.partition,
                [entry_id for entry_id, _ in near],
                deadline=started + self._store_budget_s,
            )
        except StoreUnavailable:
            self._step("accept", started, candidates=len(near), threshold=minimum)
            return Miss("store-down", tuple(self._steps), similarity=best)

        judged = self._judge(near, entries, beside)
        self._step("accept", started, candidates=len(near), threshold=minimum)
        if not judged:
            return self._miss("absent", best)
        chosen = max((each for each in judged if each.is_fit), key=_Judged.score, default=judged[0])
        return self._outcome(chosen, best)

    def _outcome(self, chosen: _Judged, best: float) -> Hit | Miss:
        entry, verdict = chosen.entry, chosen.verdict
        if verdict.is_accepted and entry.question == self._question.text:
            return self._hit("exact", entry, _EXACT)  # stored since this look-up asked the exact tier
        if verdict.is_accepted:
            if (row := row_in(verdict)) is not None:
                self._parts.evidence.note_traffic(self._question.partition.namespace, row)
            return self._hit("semantic", entry, verdict.similarity, verdict)
        if chosen.is_fit:
            beside = chosen.beside
            would_be = Near(entry.entry_id, verdict.similarity, True, beside.support, beside.rival)
            self._ticket = replace(self._ticket, near=would_be)
            return self._miss(verdict.reason, verdict.similarity, verdict)
        return self._miss(verdict.reason, best, verdict)

    def _judge(
        self, near: list[tuple[int, float]], entries: list[Entry | None], beside: list[Around]
    ) -> list[_Judged]:
        """Nearest first, until none that is left can be better than one that the rules accept."""
        judged: list[_Judged] = []
        reading = read(self._question.text)
        best: Verdict | None = None
        for at, ((entry_id, cosine), entry) in enumerate(zip(near, entries, strict=True)):
            if entry is None:
                self._parts.spaces.remove(self._space, entry_id)  # the store has let it go: so does the index
                continue
            around = beside[at] if at < len(beside) else ALONE
            if best is not None and not self._ruling.can_beat(best, cosine, around):
                break
            verdict = self._ruling.judge(
                reading,
                entry,
                cosine,
                question=self._question,
                question_id=self._ticket.entry_id,
                beside=around,
            )
            if verdict.is_accepted and not self._is_young_enough(entry):
                verdict = replace(verdict, is_accepted=False, reason="too-old")
            judged.append(_Judged(entry, verdict, around))
            if judged[-1].is_fit and (best is None or judged[-1].score() > best.features["score"]):
                best = verdict
        return judged

    def _why_not(self, entry: Entry) -> str | None:
        """Why this answer to the very question is not served."""
        if not self._is_young_enough(entry):
            return "too-old"
        blocked = self._ruling.blocked
        if not blocked.has(entry.entry_id):
            return None
        is_blocked = blocked.is_pair(entry.entry_id, answer_id(self._parts.secret, entry.answer.text))
        return "blocked" if is_blocked else None

    def _is_young_enough(self, entry: Entry) -> bool:
        most = self._question.max_age_s
        return most is None or self._age_s(entry) <= most

    def _age_s(self, entry: Entry) -> float:
        return max(0.0, self._parts.wall() - entry.created_at_s)  # another host's clock may be ahead

    def _hit(
        self,
        tier: Literal["exact", "semantic"],
        entry: Entry,
        similarity: float,
        verdict: Verdict | None = None,
    ) -> Hit:
        return Hit(tier, entry, similarity, self._age_s(entry), tuple(self._steps), verdict)

    def _miss(self, reason: str, similarity: float | None = None, verdict: Verdict | None = None) -> Miss:
        return Miss(reason, tuple(self._steps), self._ticket, similarity, verdict)

    def _failed(self, started: float, reason: str, **facts: str) -> Miss:
        self._step("embed", started, reason=reason, **facts)
        return self._miss(reason)

    def _step(self, name: str, started: float, **facts: str | int | float | bool) -> None:
        self._steps.append(Step(name, started, self._parts.now(), facts))
