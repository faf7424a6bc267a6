"""One look-up, from the question to a hit or a miss: exact, then of the same canonical form, then near in meaning.

The first command leaves with the object's making, so that it shares a round trip with the caller's other store commands
of that moment; it reads the question's own entry, however it was typed then, and where one of its canonical form is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from .acceptance import Around, canonical, read
from .acceptance.features import ALONE
from .embed import Embedded, EmbedQueue, NoEmbedder
from .errors import EmbedderBusy, StoreUnavailable, UnfitText
from .evidence import WITHHELD, Evidence, Ruling, nearest, row_in
from .identity import answer_id
from .index import Spaces
from .interfaces import EntryStore
from .model import Entry, Hit, Miss, Near, Question, Step, Ticket, Tier, Verdict

_EQUAL = 1.0
_NOBODY = -1  # no entry has this number


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
        canonical_id: int | None,
        space: bytes,
        deadline: float,
        semantic_deadline_s: float,
        is_rehearsal: bool = False,
    ) -> None:
        """A rehearsal is not counted as traffic."""
        self._parts = parts
        self._question = question
        self._ruling: Ruling = parts.evidence.of(question.partition.namespace)
        self._space = space
        self._started = parts.now()
        self._store_budget_s = deadline - self._started
        self._semantic_deadline = self._started + semantic_deadline_s
        self._is_rehearsal = is_rehearsal
        self._steps: list[Step] = []
        self._ticket = Ticket(question, entry_id, None, space=space, canonical_id=canonical_id)
        self._finding = parts.entries.find(question, entry_id, deadline=deadline, canonical_id=canonical_id)

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
            return self._own(found.entry)
        if found.alike_id is not None and found.alike_id != self._ticket.entry_id:
            alike = await self._alike(found.alike_id)
            if alike is not None:
                return alike
        if skip := self._question.skip_semantic or self._parts.embed.skip_reason:
            return self._miss(skip)
        return await self._similar(exact_reason=reason or "absent")

    def cancel(self) -> None:
        """Not wanted any more, and not awaited: the store's answer is dropped when it comes."""
        self._finding.cancel()

    async def _alike(self, entry_id: int) -> Hit | Miss | None:
        """By the entry of the same canonical form, as far as it may answer; None: look on."""
        if self._question.min_similarity is not None:
            return None  # a least cosine was asked for, and none is taken here
        started = self._parts.now()
        try:
            (entry,) = await self._parts.entries.fetch(
                self._question.partition, [entry_id], deadline=started + self._store_budget_s
            )
        except StoreUnavailable:
            self._step("canonical", started, is_hit=False)
            return None
        is_alike = entry is not None and canonical(entry.question) == canonical(self._question.text)
        if entry is None or not is_alike or entry.answer.is_literal:
            self._step("canonical", started, is_hit=False)
            return None
        verdict = self._ruling.judge_alike(
            read(self._question.text), entry, question=self._question, question_id=self._ticket.entry_id
        )
        judged = _Judged(entry, self._if_young(verdict, entry), ALONE)
        self._step("canonical", started, is_hit=judged.verdict.is_accepted, reason=judged.verdict.reason)
        if judged.verdict.is_accepted:
            return self._hit("canonical", entry, judged.verdict)
        return self._would_be(judged, entry) if judged.is_fit else None

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
        self._steps.append(Step("search", embedded.embedded_s, embedded.ended_s, embedded.neighbours.facts))
        found = await self._accept(embedded)
        if not self._is_rehearsal:
            self._parts.spaces.note_search(self._space, embedded.neighbours, is_hit=isinstance(found, Hit))
        return found

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
        wanted = [entry_id for entry_id, _ in near]
        # What the near ones are aliases of comes along in the same round trip.
        roots = {self._ruling.aliases[each] for each in wanted if each in self._ruling.aliases} - set(wanted)
        try:
            found = await self._parts.entries.fetch(
                self._question.partition, [*wanted, *roots], deadline=started + self._store_budget_s
            )
        except StoreUnavailable:
            self._step("accept", started, candidates=len(near), threshold=minimum)
            return Miss("store-down", tuple(self._steps), similarity=best)

        judged = self._judge(near, found[: len(near)], beside)
        chosen = max(
            (each for each in judged if each.is_fit), key=_Judged.score, default=next(iter(judged), None)
        )
        self._step("accept", started, candidates=len(near), threshold=minimum)
        if chosen is None:
            return self._miss("absent", best)
        if not chosen.is_fit:
            return self._miss(chosen.verdict.reason, best, chosen.verdict)
        kept = {entry.entry_id: entry for entry in found if entry is not None}
        return self._outcome(chosen, self._answering(chosen, kept))

    def _answering(self, chosen: _Judged, kept: Mapping[int, Entry]) -> Entry:
        """The entry that the chosen one is an alias of, where that is there and fit to answer; else itself."""
        root = kept.get(self._ruling.aliases.get(chosen.entry.entry_id, _NOBODY))
        if root is None or root.entry_id == self._ticket.entry_id:
            return chosen.entry
        may_answer = self._is_young_enough(root) and self._ruling.may_answer(
            read(self._question.text), root, chosen.verdict.similarity, question_id=self._ticket.entry_id
        )
        return root if may_answer else chosen.entry

    def _outcome(self, chosen: _Judged, answering: Entry) -> Hit | Miss:
        entry, verdict = chosen.entry, chosen.verdict
        if not verdict.is_accepted:
            return self._would_be(chosen, answering)
        if entry.entry_id == self._ticket.entry_id:  # stored since this look-up asked for it
            reason = self._why_not(entry)
            return self._own(entry) if reason is None else self._miss(reason)
        if answering is entry:
            return self._hit("semantic", entry, verdict)
        return self._hit("alias", answering, replace(verdict, reason="alias"), alias_id=entry.entry_id)

    def _would_be(self, chosen: _Judged, answering: Entry) -> Miss:
        verdict, beside = chosen.verdict, chosen.beside
        alias_id = None if answering is chosen.entry else chosen.entry.entry_id
        would_be = Near(
            answering.entry_id, verdict.similarity, True, beside.support, beside.rival, alias_id=alias_id
        )
        self._ticket = replace(self._ticket, near=would_be)
        return self._miss(verdict.reason, verdict.similarity, verdict)

    def _judge(
        self, near: list[tuple[int, float]], entries: list[Entry | None], beside: list[Around]
    ) -> list[_Judged]:
        """Nearest first, until none that is left can be better than one that the rules accept."""
        judged: list[_Judged] = []
        reading = read(self._question.text)
        best: Verdict | None = None
        for at, ((entry_id, cosine), entry) in enumerate(zip(near, entries, strict=True)):
            if entry is None or entry.answer.is_literal:
                # The store has let it go, or its newer answer is for nobody else: so does the index.
                self._parts.spaces.remove(self._space, entry_id)
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
            verdict = self._if_young(verdict, entry)
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

    def _if_young(self, verdict: Verdict, entry: Entry) -> Verdict:
        if verdict.is_accepted and not self._is_young_enough(entry):
            return replace(verdict, is_accepted=False, reason="too-old")
        return verdict

    def _is_young_enough(self, entry: Entry) -> bool:
        most = self._question.max_age_s
        return most is None or self._age_s(entry) <= most

    def _age_s(self, entry: Entry) -> float:
        return max(0.0, self._parts.wall() - entry.created_at_s)  # another host's clock may be ahead

    def _own(self, entry: Entry) -> Hit:
        """By the question's own entry."""
        tier: Tier = "exact" if entry.question == self._question.text else "normalised"
        return Hit(tier, entry, _EQUAL, self._age_s(entry), tuple(self._steps))

    def _hit(self, tier: Tier, entry: Entry, verdict: Verdict, *, alias_id: int | None = None) -> Hit:
        if not self._is_rehearsal:
            self._parts.evidence.note_hit(self._question, row_in(verdict))
        steps = tuple(self._steps)
        return Hit(tier, entry, verdict.similarity, self._age_s(entry), steps, verdict, alias_id)

    def _miss(self, reason: str, similarity: float | None = None, verdict: Verdict | None = None) -> Miss:
        return Miss(reason, tuple(self._steps), self._ticket, similarity, verdict)

    def _failed(self, started: float, reason: str, **facts: str) -> Miss:
        self._step("embed", started, reason=reason, **facts)
        return self._miss(reason)

    def _step(self, name: str, started: float, **facts: str | int | float | bool) -> None:
        self._steps.append(Step(name, started, self._parts.now(), facts))
