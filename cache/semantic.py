"""The cache itself: begins look-ups, and stores what may be stored.

Whatever fails on the way is a miss with a reason, never an error of the request. What happened is returned as
facts with their times; nothing is logged or counted here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from . import identity
from .embed import EmbedQueue, NoEmbedder
from .errors import EmbedderBusy, StoreUnavailable, UnfitText
from .evidence import Evidence, Standing
from .explain import Explanation, explain
from .index import Cluster, Spaces
from .interfaces import EntryStore
from .lookup import Lookup, Parts
from .model import Answer, Entry, Partition, Question, Rejected, Served, Step, Stored, Ticket, owner_of

# A write happens after the answer was served: it may take longer than a request may wait.
_WRITE_DEADLINE_S = 1.0
_EMBED_FOR_WRITE_S = 2.0
_CONTROL_DEADLINE_S = 5.0


class SemanticCache:
    """Answers by question, exact or similar, inside partitions that never meet.

    `now` measures (monotonic), `wall` dates entries. Calls belong to one event loop. The parts given are the
    caller's to close.
    """

    def __init__(
        self,
        entries: EntryStore,
        embed: EmbedQueue | NoEmbedder,
        spaces: Spaces,
        evidence: Evidence,
        *,
        secret: bytes,
        ttl_s: float,
        semantic_deadline_s: float = 0.25,
        max_entry_bytes: int = 1 << 20,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._parts = Parts(entries, embed, spaces, evidence, secret, now, wall)
        self._secret = secret
        self._ttl_s = ttl_s
        self._semantic_deadline_s = semantic_deadline_s
        self._max_entry_bytes = max_entry_bytes

    def __repr__(self) -> str:
        return f"SemanticCache({self._parts.evidence!r}, {self._parts.embed!r}, {self._parts.spaces!r})"

    def partition(self, namespace: str, material: bytes) -> Partition:
        """`material` is the canonical form of everything in a request that must match exactly."""
        return identity.partition(self._secret, namespace, material)

    def entry_id(self, question: Question) -> int:
        """The number of the entry that this very question has, or would have."""
        return self._entry_id(question)

    def canonical_id(self, question: Question) -> int | None:
        """Shared with questions of the same canonical form; None where only equal ones, or near ones, will do."""
        if question.skip_semantic is not None:
            return None
        return identity.canonical_id(self._secret, question.partition, question.text)

    def tags(self, plain: Mapping[str, str]) -> dict[str, bytes]:
        """What an answer has to do with, as it is kept beside it."""
        return {name: identity.tag(self._secret, name, value) for name, value in plain.items()}

    def answer_id(self, answer: Answer) -> int:
        return identity.answer_id(self._secret, answer.text)

    @property
    def evidence(self) -> Evidence:
        return self._parts.evidence

    def standing(self, namespace: str) -> Standing:
        """How far similar questions are answered there now."""
        return self._parts.evidence.of(namespace).standing

    def begin(self, question: Question, *, deadline: float, is_rehearsal: bool = False) -> Lookup:
        """Start a look-up: the exact tier's command leaves now. `deadline` is for the store.

        Await `result()` for the outcome, or `cancel()` if it is not wanted any more. A rehearsal serves nobody, and is
        not counted as traffic.
        """
        return Lookup(
            self._parts,
            question,
            entry_id=self._entry_id(question),
            canonical_id=self.canonical_id(question),
            space=self._space(question),
            deadline=deadline,
            semantic_deadline_s=self._semantic_deadline_s,
            is_rehearsal=is_rehearsal,
        )

    async def explain(self, question: Question, *, deadline: float) -> Explanation:
        """What a look-up would find, without answering by it."""
        lookup = self.begin(question, deadline=deadline, is_rehearsal=True)
        return await explain(
            self._parts,
            lookup,
            question,
            question_id=self._entry_id(question),
            canonical_id=self.canonical_id(question),
            space=self._space(question),
        )

    async def ticket(self, question: Question, *, deadline: float) -> Ticket | None:
        """For a refresh: what a miss would have read, without reading. None if the store does not answer."""
        entry_id = self._entry_id(question)
        try:
            found = await self._parts.entries.find(question, entry_id, deadline=deadline)
        except StoreUnavailable:
            return None
        return Ticket(
            question,
            entry_id,
            found.epoch,
            space=self._space(question),
            canonical_id=self.canonical_id(question),
        )

    async def store(self, ticket: Ticket, answer: Answer, *, ttl_s: float | None = None) -> Stored:
        """Keep the answer, unless anything was invalidated since the ticket's look-up. Never raises.

        A text that was not embedded at look-up is embedded first, behind all look-ups.
        """
        size = len(ticket.question.text) + len(answer.text) + len(answer.payload)
        if size > self._max_entry_bytes:
            return Stored(False, "too-large", ())
        blocked = self._parts.evidence.of(ticket.question.partition.namespace).blocked
        if blocked.has(ticket.entry_id) and blocked.is_pair(
            ticket.entry_id, identity.answer_id(self._secret, answer.text)
        ):
            return Stored(False, "blocked", ())
        ticket, steps = await self._with_vector(ticket)

        started = self._parts.now()
        created_at_s = self._parts.wall()
        expires_at_s = created_at_s + _spread(self._ttl_s if ttl_s is None else ttl_s, ticket.entry_id)
        entry = Entry(ticket.entry_id, ticket.question.text, answer, created_at_s, expires_at_s)
        try:
            reason: str = await self._parts.entries.put(ticket, entry, deadline=started + _WRITE_DEADLINE_S)
        except StoreUnavailable:
            reason = "store-down"
        except UnicodeEncodeError:
            reason = "not-unicode"  # half a surrogate pair: JSON can say it, no store can hold it
        is_stored = reason == "stored"
        if is_stored and ticket.vector is not None and ticket.space is not None:
            # At once, not when it comes back through the stream: the next question may be here already.
            self._parts.spaces.add(
                ticket.space, ticket.entry_id, ticket.vector, expires_at_s=entry.expires_at_s
            )
        if is_stored:
            self._parts.evidence.note_stored(ticket, answer)
        return Stored(is_stored, reason, (*steps, Step("store", started, self._parts.now())))

    def clusters(self, namespace: str, *, most: int) -> list[Cluster]:
        """The largest in this process's index. Not on the loop: a search may have to end first."""
        return self._parts.spaces.clusters(identity.namespace_tag(self._secret, namespace), most=most)

    async def flush(self, namespace: str) -> None:
        """Forget a namespace; writes under way come to nothing. Raises `StoreUnavailable`."""
        await self._parts.entries.flush(namespace, deadline=self._parts.now() + _CONTROL_DEADLINE_S)
        self._parts.spaces.drop_namespace(identity.namespace_tag(self._secret, namespace))

    async def forget(self, namespace: str, entry_id: int) -> bool:
        """Remove one entry; False if there was none. Raises `StoreUnavailable`."""
        deadline = self._parts.now() + _CONTROL_DEADLINE_S
        await self._parts.entries.begin_era(owner_of(namespace), deadline=deadline)
        removed = await self._parts.entries.remove(namespace, [entry_id], deadline=deadline)
        tag = identity.namespace_tag(self._secret, namespace)
        self._parts.spaces.remove_from_namespace(tag, entry_id)
        return removed > 0

    async def reject(self, served: Served, *, key: str) -> Rejected:
        """That answer was wrong, says whoever has this key: the question does not get it again, here at once and on
        other workers within a tick, for good; unless it is gone already and there is nothing to block.

        Raises `StoreUnavailable`, and OSError where the evidence cannot be written.
        """
        namespace, question_id = served.partition.namespace, served.question_id
        reporter = identity.digest(self._secret, b"reporter\0" + key.encode())[:8]
        evidence = self._parts.evidence
        if served.entry_id != question_id:
            near_id, root_id = served.entry_id, None
            if served.alias_id is not None:
                near_id, root_id = served.alias_id, served.entry_id
            is_replicated = await evidence.report(
                namespace,
                pair=(question_id, near_id),
                key=reporter,
                similarity=served.similarity,
                root_id=root_id,
            )
            return Rejected(True, is_replicated)
        deadline = self._parts.now() + _CONTROL_DEADLINE_S
        answer_id = served.answer_id
        if answer_id is None:
            (entry,) = await self._parts.entries.fetch(served.partition, [question_id], deadline=deadline)
            if entry is None:
                return Rejected(False)
            answer_id = self.answer_id(entry.answer)
        is_replicated = await evidence.report(namespace, pair=(question_id, answer_id), key=reporter)
        await self._parts.entries.block(namespace, question_id, answer_id, deadline=deadline)
        tag = identity.namespace_tag(self._secret, namespace)
        self._parts.spaces.remove_from_namespace(tag, question_id)
        return Rejected(True, is_replicated)

    async def _with_vector(self, ticket: Ticket) -> tuple[Ticket, tuple[Step, ...]]:
        """Without one where there can be none: the entry then serves exact matches only."""
        is_exact_only = ticket.question.skip_semantic or self._parts.embed.skip_reason
        if ticket.vector is not None or is_exact_only:
            return ticket, ()
        started = self._parts.now()
        try:
            embedded = await self._parts.embed.embed(
                ticket.question.text, deadline=started + _EMBED_FOR_WRITE_S, is_background=True
            )
        except (UnfitText, EmbedderBusy) as error:
            reason = error.reason if isinstance(error, UnfitText) else "embedder-busy"
            return ticket, (Step("embed", started, self._parts.now(), {"reason": reason}),)
        except (
            Exception
        ) as error:  # the embedder is outside: whatever it raises, the exact entry is worth keeping
            return ticket, (Step("embed", started, self._parts.now(), {"error": type(error).__name__}),)
        step = Step("embed", embedded.started_s, embedded.embedded_s)
        return replace(ticket, vector=embedded.vector), (step,)

    def _entry_id(self, question: Question) -> int:
        return identity.entry_id(self._secret, question.partition, question.text)

    def _space(self, question: Question) -> bytes:
        """Empty, which is no space's name, where the text is only matched exactly: it takes three digests."""
        if question.skip_semantic or self._parts.embed.skip_reason:
            return b""
        return identity.space(self._secret, question.partition, self._parts.embed.fingerprint)


def _spread(ttl_s: float, entry_id: int) -> float:
    """Up to a tenth less, another for each entry: what was stored at once is not asked for anew at once."""
    return ttl_s * (1 - 0.1 * (entry_id % 1024) / 1024)
