"""`/v1/embeddings`: each input is looked up for itself, and a model server is asked only for those that are new.

A batch of which nothing is known goes out, and comes back, byte for byte. Equal inputs only: vectors of similar texts
are not the same. What is kept is the vector, under a digest of its input.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from backends import Exchange
from cache import Answer, Hit, Miss, Question, SemanticCache, Ticket

from .. import notes
from ..body import Json, canonical
from ..controls import MODES, Controls, read_controls
from ..eligibility import identity_of
from ..errors import NO_RETRY, UpstreamError, only_if_cached
from ..evidence.policy import CachePolicies
from ..passage import Entrant, Passage
from ..relay import ANSWER_LIMIT_BYTES, mapped_back
from ..replies.model_name import renamed
from ..replies.upstream_errors import normalise
from ..telemetry import spans
from ..telemetry.timeline import Timeline
from .embedding_batch import Batch, Replied, as_reply, read_batch, read_reply, shares
from .wire import Reply, Request

PATH = "/v1/embeddings"
_ENDPOINT = "embeddings"
_AT_ONCE = 64  # look-ups and writes of one round trip: what the loop does between two turns
_LARGE = 16_384  # numbers of a reply from which on it is put together off the loop
# How the vectors travel, or what only the gateway reads.
_NOT_IN_IDENTITY = ("input", "encoding_format")
_LATE_WRITES = 256


class Embeddings:
    """`aclose` waits for what is still being written."""

    def __init__(
        self,
        passage: Passage,
        *,
        cache: SemanticCache,
        policies: CachePolicies,
        store_deadline_s: float,
    ) -> None:
        self._passage = passage
        self._cache = cache
        self._policies = policies
        self._store_deadline_s = store_deadline_s
        self._writing: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        if self._writing:
            await asyncio.wait(self._writing, timeout=5)

    async def answer(self, request: Request, reply: Reply, timeline: Timeline, *, deadline_s: float) -> None:
        """Raises ApiError."""
        async with self._passage.admitted(
            request, reply, timeline, scope="embeddings", deadline_s=deadline_s, generates=False
        ) as entrant:
            batch = read_batch(entrant.body.values)
            controls = self._controls(entrant, request)
            bypass = _why_not(controls)
            if controls.only_if_cached and not (bypass is None and controls.reads):
                notes.outcome(timeline, reply, "BYPASS", bypass or "no-cache")
                raise only_if_cached()
            if bypass is not None:
                notes.outcome(timeline, reply, "BYPASS", bypass)
                await self._ask(entrant, batch, reply, timeline)
                return
            questions = self._questions(entrant, batch, controls)
            if not controls.reads:
                tickets = await self._tickets(questions)
                notes.outcome(timeline, reply, "REFRESH", "no-cache")
                asked = await self._ask(entrant, batch, reply, timeline)
                await self._keep(entrant, batch.inputs, tickets, asked, controls, timeline)
                return
            await self._from_both(entrant, batch, questions, controls, reply, timeline)

    async def _from_both(
        self,
        entrant: Entrant,
        batch: Batch,
        questions: list[Question],
        controls: Controls,
        reply: Reply,
        timeline: Timeline,
    ) -> None:
        started = time.monotonic()
        found = await self._look_up(questions)
        hits = [each for each in found if isinstance(each, Hit)]
        spans.note_batch(timeline, started, time.monotonic(), inputs=len(found), hits=len(hits))
        if len(hits) == len(found):
            notes.outcome(timeline, reply, "HIT-EXACT", None)
            reply.add("age", int(max(hit.age_s for hit in hits)))
            tokens = _tokens_of(hits)
            timeline.input_tokens, timeline.output_tokens = tokens, 0
            await _send(reply, [hit.entry.answer.payload for hit in hits], batch, entrant.model, tokens)
            return
        reason = "partial" if hits else _reason(found[0])
        notes.outcome(timeline, reply, "MISS", reason)
        if controls.only_if_cached:
            raise only_if_cached()
        if not hits:
            asked = await self._ask(entrant, batch, reply, timeline)
            tickets = [each.ticket if isinstance(each, Miss) else None for each in found]
            await self._keep(entrant, batch.inputs, tickets, asked, controls, timeline)
            return
        await self._ask_the_rest(entrant, batch, questions, found, controls, reply, timeline)

    async def _ask_the_rest(
        self,
        entrant: Entrant,
        batch: Batch,
        questions: list[Question],
        found: list[Hit | Miss],
        controls: Controls,
        reply: Reply,
        timeline: Timeline,
    ) -> None:
        """The new inputs, each once, and the reply to all of them."""
        new = {
            question.text: at
            for at, (question, each) in enumerate(zip(questions, found, strict=True))
            if isinstance(each, Miss)
        }
        inputs = [batch.inputs[at] for at in new.values()]
        asked = await self._ask(entrant, Batch(tuple(inputs), batch.wants_base64), None, timeline)
        if asked is None:
            raise UpstreamError("The model server's reply is not one to embeddings.", headers=NO_RETRY)
        vectors = dict(zip(new, asked.vectors, strict=True))
        whole = [
            each.entry.answer.payload if isinstance(each, Hit) else vectors[question.text]
            for question, each in zip(questions, found, strict=True)
        ]
        tokens = _tokens_of([each for each in found if isinstance(each, Hit)]) + asked.tokens
        reply.add("x-echogate-backend", timeline.backend or "")
        tickets = [each.ticket for at in new.values() if isinstance(each := found[at], Miss)]
        await _send(reply, whole, batch, entrant.model, tokens, asked)
        await self._keep(entrant, inputs, tickets, asked, controls, timeline)

    async def _ask(
        self, entrant: Entrant, batch: Batch, reply: Reply | None, timeline: Timeline
    ) -> Replied | None:
        """What a server replied to this batch; passed on as it came if there is a `reply`. None: no vectors."""

        replacements = None if reply is not None else {"input": canonical(list(batch.inputs))}
        async with self._passage.sent(
            entrant,
            timeline,
            path=PATH,
            operation=_ENDPOINT,
            body=lambda member: entrant.body_for(member, replacements),
        ) as exchange:
            raw = await _whole(exchange, entrant)
            asked = read_reply(raw, count=len(batch.inputs))
            if asked is not None:
                timeline.input_tokens, timeline.output_tokens = asked.tokens, 0
            if reply is not None:
                reply.add("x-echogate-backend", exchange.member)
                await reply.whole(200, raw)
            return asked

    async def _look_up(self, questions: list[Question]) -> list[Hit | Miss]:
        found: list[Hit | Miss] = []
        deadline = time.monotonic() + self._store_deadline_s
        for at in range(0, len(questions), _AT_ONCE):
            lookups = [
                self._cache.begin(question, deadline=deadline) for question in questions[at : at + _AT_ONCE]
            ]
            found += [await lookup.result() for lookup in lookups]
        return found

    async def _tickets(self, questions: list[Question]) -> list[Ticket | None]:
        deadline = time.monotonic() + self._store_deadline_s
        tickets: list[Ticket | None] = []
        for at in range(0, len(questions), _AT_ONCE):
            some = questions[at : at + _AT_ONCE]
            tickets += await asyncio.gather(
                *(self._cache.ticket(question, deadline=deadline) for question in some)
            )
        return tickets

    def _controls(self, entrant: Entrant, request: Request) -> Controls:
        """Raises InvalidRequest."""
        principal = entrant.principal
        controls = read_controls(request.headers, entrant.body.values.get("cache"), mode=principal.cache_mode)
        policy = self._policies.of(principal.tenant, controls.namespace)
        return replace(
            controls,
            mode=min(controls.mode, policy.mode, key=MODES.index),
            ttl_s=min(policy.ttl_s, controls.ttl_s if controls.ttl_s is not None else policy.ttl_s),
            max_age_s=min(
                policy.ttl_s, controls.max_age_s if controls.max_age_s is not None else policy.ttl_s
            ),
        )

    def _questions(self, entrant: Entrant, batch: Batch, controls: Controls) -> list[Question]:
        namespace, material = identity_of(
            entrant.body.values,
            endpoint=_ENDPOINT,
            principal=entrant.principal,
            version=entrant.route.version,
            controls=controls,
            without=_NOT_IN_IDENTITY,
            also={},
        )
        partition = self._cache.partition(namespace, material)
        return [
            Question(partition, name, skip_semantic=_ENDPOINT, max_age_s=controls.max_age_s)
            for name in batch.names()
        ]

    async def _keep(
        self,
        entrant: Entrant,
        inputs: Sequence[Json],
        tickets: Sequence[Ticket | None],
        asked: Replied | None,
        controls: Controls,
        timeline: Timeline,
    ) -> None:
        """Behind the reply; goes on though the caller leaves, and so does no more than so many at once."""
        if asked is None or not controls.stores or len(self._writing) >= _LATE_WRITES:
            return
        tags = self._cache.tags(notes.tags(entrant.route.version, entrant.body.values, timeline))
        answers = [
            Answer(
                "", vector, {**notes.made(timeline), "input_tokens": str(tokens), "output_tokens": "0"}, tags
            )
            for vector, tokens in zip(asked.vectors, shares(asked.tokens, inputs), strict=True)
        ]
        task = asyncio.create_task(self._write(tickets, answers, controls.ttl_s))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        await asyncio.shield(task)

    async def _write(
        self, tickets: Sequence[Ticket | None], answers: Sequence[Answer], ttl_s: float | None
    ) -> None:
        pairs = [(ticket, answer) for ticket, answer in zip(tickets, answers, strict=True) if ticket]
        for at in range(0, len(pairs), _AT_ONCE):
            some = pairs[at : at + _AT_ONCE]
            await asyncio.gather(*(self._cache.store(ticket, answer, ttl_s=ttl_s) for ticket, answer in some))


async def _whole(exchange: Exchange, entrant: Entrant) -> bytes:
    """The reply's body. Raises ApiError where it is none to embeddings."""
    if exchange.status != 200:
        raise normalise(
            exchange.status, await exchange.read(1 << 20), retry_after=exchange.headers.get("retry-after")
        )
    raw = await exchange.read(ANSWER_LIMIT_BYTES)
    try:
        return renamed(raw, mapped_back(exchange, entrant.model))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UpstreamError("The model server's reply is not one to embeddings.", headers=NO_RETRY) from error


async def _send(
    reply: Reply,
    vectors: Sequence[bytes],
    batch: Batch,
    model: str,
    tokens: int,
    asked: Replied | None = None,
) -> None:
    members = {} if asked is None else asked.members

    def made() -> bytes:
        return as_reply(vectors, batch, model=model, tokens=tokens, members=members)

    is_large = sum(map(len, vectors)) // 4 > _LARGE
    await reply.whole(200, await asyncio.to_thread(made) if is_large else made())


def _tokens_of(hits: Sequence[Hit]) -> int:
    return sum(int(hit.entry.answer.origin.get("input_tokens", "0")) for hit in hits)


def _reason(found: Hit | Miss) -> str:
    """That it is matched exactly only is no reason here: all are."""
    reason = found.reason or "absent"
    return "absent" if reason == _ENDPOINT else reason


def _why_not(controls: Controls) -> str | None:
    if controls.mode == "off":
        return "mode-off"
    return None if controls.reads or controls.stores else "no-store"
