"""`/v1/embeddings`: each input is looked up for itself, and a model server is asked only for those that are new.

A batch of which nothing is known goes out, and comes back, byte for byte. Equal inputs only: vectors of similar texts
are not the same. What is kept is the vector, under a digest of its input.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

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
from .embedding_batch import Batch, Replied, as_reply, in_order, read_batch, read_reply, shares, written
from .shelf import Shelf
from .turns import in_turns
from .wire import Reply, Request

PATH = "/v1/embeddings"
_ENDPOINT = "embeddings"
# With these of vLLM's, base64 holds other numbers than 32-bit floats: then a vector is good for its own form only.
_OTHER_NUMBERS = ("embed_dtype", "endianness")


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
        self._shelf = Shelf(cache, store_deadline_s=store_deadline_s)

    async def aclose(self) -> None:
        await self._shelf.aclose()

    async def answer(self, request: Request, reply: Reply, timeline: Timeline, *, deadline_s: float) -> None:
        """Raises ApiError."""
        async with self._passage.admitted(
            request, reply, timeline, scope="embeddings", deadline_s=deadline_s, generates=False
        ) as entrant:
            batch = read_batch(entrant.body.values)
            names = await in_turns(batch.names())
            controls = self._controls(entrant, request)
            bypass = _why_not(controls)
            if controls.only_if_cached and not (bypass is None and controls.reads):
                notes.outcome(timeline, reply, "BYPASS", bypass or "no-cache")
                raise only_if_cached()
            if bypass is not None:
                notes.outcome(timeline, reply, "BYPASS", bypass)
                await self._pass(entrant, reply, timeline)
                return
            questions = self._questions(entrant, names, controls)
            if not controls.reads:
                tickets = await self._shelf.tickets(questions)
                notes.outcome(timeline, reply, "REFRESH", "no-cache")
                asked = await self._pass(entrant, reply, timeline)
                await self._keep_all(entrant, batch, tickets, asked, controls, timeline)
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
        found = await self._shelf.look_up(questions)
        hits = [each for each in found if isinstance(each, Hit)]
        spans.note_batch(timeline, started, time.monotonic(), inputs=len(found), hits=len(hits))
        if len(hits) == len(found):
            notes.outcome(timeline, reply, "HIT-EXACT", None)
            reply.add("age", int(max(hit.age_s for hit in hits)))
            tokens = _tokens_of(hits)
            timeline.input_tokens, timeline.output_tokens = tokens, 0
            data = await in_turns(written([hit.entry.answer.payload for hit in hits], batch))
            await reply.whole(200, as_reply(data, model=entrant.model, tokens=tokens, members={}))
            return
        reason = "partial" if hits else _reason(found[0])
        notes.outcome(timeline, reply, "MISS", reason)
        if controls.only_if_cached:
            raise only_if_cached()
        if not hits:
            asked = await self._pass(entrant, reply, timeline)
            tickets = [each.ticket if isinstance(each, Miss) else None for each in found]
            await self._keep_all(entrant, batch, tickets, asked, controls, timeline)
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
        _, asked = await self._ask(entrant, timeline, {"input": canonical(inputs)})
        made = None if asked is None else await _vectors(asked, count=len(inputs))
        if asked is None or made is None:
            raise _no_vectors()
        vectors = dict(zip(new, made, strict=True))
        whole = [
            each.entry.answer.payload if isinstance(each, Hit) else vectors[question.text]
            for question, each in zip(questions, found, strict=True)
        ]
        tokens = _tokens_of([each for each in found if isinstance(each, Hit)]) + asked.tokens
        reply.add("x-echogate-backend", timeline.backend or "")
        data = await in_turns(written(whole, batch))
        await reply.whole(200, as_reply(data, model=entrant.model, tokens=tokens, members=asked.members))
        tickets = [each.ticket for at in new.values() if isinstance(each := found[at], Miss)]
        await self._keep(entrant, inputs, tickets, made, asked.tokens, controls, timeline)

    async def _pass(self, entrant: Entrant, reply: Reply, timeline: Timeline) -> Replied | None:
        """The whole batch, there and back as it came. None: there are no vectors in the reply."""
        raw, asked = await self._ask(entrant, timeline)
        reply.add("x-echogate-backend", timeline.backend or "")
        await reply.whole(200, raw)
        return asked

    async def _ask(
        self, entrant: Entrant, timeline: Timeline, replacements: Mapping[str, str] | None = None
    ) -> tuple[bytes, Replied | None]:
        """A reply as its caller may read it, and what is in it. Raises ApiError where it is none to embeddings."""
        async with self._passage.sent(
            entrant,
            timeline,
            path=PATH,
            operation=_ENDPOINT,
            body=lambda member: entrant.body_for(member, replacements),
        ) as exchange:
            if exchange.status != 200:
                raise normalise(
                    exchange.status,
                    await exchange.read(1 << 20),
                    retry_after=exchange.headers.get("retry-after"),
                )
            raw = await exchange.read(ANSWER_LIMIT_BYTES)
            try:
                asked = read_reply(raw)
                raw = renamed(raw, mapped_back(exchange, entrant.model))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                exchange.reject("not-an-answer")
                raise _no_vectors() from error
            if asked is not None:
                timeline.input_tokens, timeline.output_tokens = asked.tokens, 0
            return raw, asked

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

    def _questions(self, entrant: Entrant, names: Sequence[str], controls: Controls) -> list[Question]:
        values = entrant.body.values
        is_plain = not any(name in values for name in _OTHER_NUMBERS)
        namespace, material = identity_of(
            values,
            endpoint=_ENDPOINT,
            principal=entrant.principal,
            version=entrant.route.version,
            controls=controls,
            without=("input", "encoding_format") if is_plain else ("input",),
            also={},
        )
        partition = self._cache.partition(namespace, material)
        return [
            Question(partition, name, skip_semantic=_ENDPOINT, max_age_s=controls.max_age_s) for name in names
        ]

    async def _keep_all(
        self,
        entrant: Entrant,
        batch: Batch,
        tickets: Sequence[Ticket | None],
        asked: Replied | None,
        controls: Controls,
        timeline: Timeline,
    ) -> None:
        if asked is None or not controls.stores:
            return
        vectors = await _vectors(asked, count=len(batch.inputs))
        if vectors is not None:
            await self._keep(entrant, batch.inputs, tickets, vectors, asked.tokens, controls, timeline)

    async def _keep(
        self,
        entrant: Entrant,
        inputs: Sequence[Json],
        tickets: Sequence[Ticket | None],
        vectors: Sequence[bytes],
        tokens: int,
        controls: Controls,
        timeline: Timeline,
    ) -> None:
        """Behind the reply."""
        if not controls.stores:
            return
        tags = self._cache.tags(notes.tags(entrant.route.version, entrant.body.values, timeline))
        made = notes.made(timeline)
        pairs = [
            (
                ticket,
                Answer("", vector, {**made, "input_tokens": str(share), "output_tokens": "0"}, tags),
            )
            for ticket, vector, share in zip(tickets, vectors, shares(tokens, inputs), strict=True)
            if ticket is not None
        ]
        started = time.monotonic()
        reason = await self._shelf.keep(pairs, ttl_s=controls.ttl_s)
        if reason is not None:
            spans.note_store(timeline, started, time.monotonic(), is_stored=reason == "stored", reason=reason)


async def _vectors(asked: Replied, *, count: int) -> list[bytes] | None:
    """One for each input; None where there is anything else."""
    try:
        return in_order(await in_turns(asked.vectors()), count=count)
    except ValueError:
        return None


def _no_vectors() -> UpstreamError:
    return UpstreamError("The model server's reply is not one to embeddings.", headers=NO_RETRY)


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
