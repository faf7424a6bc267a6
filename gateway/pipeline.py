"""One request for text, told top-down: who asks, may they now, has this been answered, and if not, by whom.

    authenticate → read the body → limit and exact look-up in one store round trip → a hit is replayed;
    a miss takes a seat in a flight to the least-loaded backend, is served as bytes arrive, and is stored

The pipeline decides nothing by itself: each step is one call into a leaf or a pure function. What happened is
noted on the request's timeline (notes.py); spans, metrics and the log line are made of it afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from auth import Principal
from cache import Hit, Lookup, Miss, Question, SemanticCache, Ticket

from . import notes
from .admission import Admissions
from .asking import Asking
from .body import Body, canonical, split_aside
from .call import Call, read_wish
from .callers import Callers
from .controls import MODES, Controls, read_controls
from .data.wire import Reply, Request, departure
from .dialects import Dialect
from .eligibility import Plan, plan
from .errors import ApiError, only_if_cached
from .evidence.policy import CachePolicies
from .evidence.witness import Witness
from .relay import AnswerFlight, AnswerFlights, relay_out
from .routing import Routing
from .telemetry import spans
from .telemetry.timeline import Timeline
from .telling import retell


@dataclass(frozen=True, slots=True)
class Policy:
    """What the deployment has decided, as plain values."""

    body_limit_bytes: int = 4 << 20
    store_deadline_s: float = 0.050


class Pipeline:
    """Answers requests. Raises ApiError for whatever the caller is to be told instead of an answer."""

    def __init__(
        self,
        *,
        callers: Callers,
        admissions: Admissions,
        routing: Routing,
        cache: SemanticCache,
        policies: CachePolicies,
        witness: Witness,
        flights: AnswerFlights,
        asking: Asking,
        policy: Policy,
    ) -> None:
        self._callers = callers
        self._admissions = admissions
        self._routing = routing
        self._cache = cache
        self._policies = policies
        self._witness = witness
        self._flights = flights
        self._asking = asking
        self._policy = policy

    async def answer(
        self, dialect: Dialect, request: Request, reply: Reply, timeline: Timeline, *, deadline_s: float
    ) -> None:
        reply.as_error_frame = dialect.as_error
        principal = await self._callers.identify(request, timeline)
        raw = await request.body(self._policy.body_limit_bytes)
        body, malformed = await _split(raw, request.model)
        started = time.monotonic()  # only now: reading a large body must not use up the store's time
        store_deadline = started + self._policy.store_deadline_s
        # Both of these send their command now, and are answered in one round trip.
        admission = self._admissions.begin(
            principal, body.values, body_bytes=len(raw), deadline=store_deadline
        )
        lookup = sibling = None
        try:
            if malformed is not None:
                raise malformed
            call = self._read(dialect, body, len(raw), request, principal, timeline, deadline_s=deadline_s)
            if call.question is not None and call.controls.reads:
                lookup = self._cache.begin(call.question, deadline=store_deadline)
                sibling = self._flights.find(_key(call, call.question))
        except ApiError:
            await admission.decided(timeline, reply, started=started)  # a refused request counts as well
            admission.settle(timeline, reply)
            raise
        try:
            await admission.decided(timeline, reply, started=started)
        except ApiError:
            if lookup is not None:
                lookup.cancel()
            raise
        try:
            await self._answer(call, lookup, sibling, request, reply, timeline, store_deadline=store_deadline)
        finally:
            admission.settle(timeline, reply)

    async def _answer(
        self,
        call: Call,
        lookup: Lookup | None,
        sibling: AnswerFlight | None,
        request: Request,
        reply: Reply,
        timeline: Timeline,
        *,
        store_deadline: float,
    ) -> None:
        if lookup is None or call.question is None:
            await self._without_reading(call, request, reply, timeline, deadline=store_deadline)
        else:
            found = await self._look_up(lookup, sibling, call.question, timeline)
            self._witness.decided(call, found, timeline)
            if isinstance(found, Hit):
                await self._serve(found, call, request, reply, timeline)
            else:
                await self._miss(found, call, call.question, request, reply, timeline)

    def _read(
        self,
        dialect: Dialect,
        body: Body,
        body_bytes: int,
        request: Request,
        principal: Principal,
        timeline: Timeline,
        *,
        deadline_s: float,
    ) -> Call:
        wish = read_wish(body.values, dialect=dialect)
        timeline.is_stream = wish.wants_stream
        # Fixed before the look-up, so that what is served and what is stored is of one version.
        route = self._routing.permitted(
            wish.model,
            principal,
            body,
            request.headers,
            scope="chat",
            body_bytes=body_bytes,
            began_s=timeline.started,
            deadline_s=deadline_s,
        )
        timeline.model = wish.model
        controls = read_controls(request.headers, body.values.get("cache"), mode=principal.cache_mode)
        policy = self._policies.of(principal.tenant, controls.namespace)
        controls = replace(controls, mode=min(controls.mode, policy.mode, key=MODES.index))
        planned = plan(
            body.values,
            dialect=dialect,
            principal=principal,
            version=route.version,
            controls=controls,
            cues=policy.cues,
        )
        controls = replace(
            controls,
            ttl_s=_shortest(controls.ttl_s, policy.ttl_s, planned.most_ttl_s),
            max_age_s=_shortest(controls.max_age_s, policy.ttl_s),
            replay=controls.replay or policy.replay,
        )
        question = self._question(planned, controls) if planned.bypass is None else None
        echo = dialect.echo(body.values)
        return Call(
            dialect,
            body,
            wish,
            route,
            controls,
            question,
            planned.bypass,
            policy.keeping,
            planned.material,
            echo,
        )

    def _question(self, planned: Plan, controls: Controls) -> Question:
        return Question(
            partition=self._cache.partition(planned.namespace, planned.material),
            text=planned.text,
            skip_semantic=planned.skip_semantic,
            max_age_s=controls.max_age_s,
            min_similarity=controls.min_similarity,
            is_shadow=controls.mode == "shadow",
        )

    async def _without_reading(
        self, call: Call, request: Request, reply: Reply, timeline: Timeline, *, deadline: float
    ) -> None:
        """Past the cache altogether, or a refresh, which only stores."""
        self._witness.passed(call, timeline)
        if call.controls.only_if_cached:
            notes.outcome(timeline, reply, "BYPASS", call.bypass or "no-cache")
            raise only_if_cached()
        ticket = None
        if call.question is not None:
            ticket = await self._cache.ticket(call.question, deadline=deadline)
            notes.outcome(timeline, reply, "REFRESH", "no-cache")
        else:
            notes.outcome(timeline, reply, "BYPASS", call.bypass)
        await self._fetch(call, ticket, request, reply, timeline)

    async def _look_up(
        self, lookup: Lookup, sibling: AnswerFlight | None, question: Question, timeline: Timeline
    ) -> Hit | Miss:
        found = await lookup.result()
        if isinstance(found, Miss) and sibling is not None and await sibling.landed():
            # The very same was answered a moment ago, and was still on its way to the store when we looked.
            deadline = time.monotonic() + self._policy.store_deadline_s
            found = await self._cache.begin(question, deadline=deadline).result()
        # It began with its first step, whose command left together with the limiter's.
        ended = time.monotonic()
        started = found.steps[0].started_s if found.steps else ended
        spans.note_lookup(timeline, started, ended, found)
        return found

    async def _serve(self, hit: Hit, call: Call, request: Request, reply: Reply, timeline: Timeline) -> None:
        notes.hit(timeline, reply, hit)
        await retell(hit.entry.answer, call, request, reply)

    async def _miss(
        self, miss: Miss, call: Call, question: Question, request: Request, reply: Reply, timeline: Timeline
    ) -> None:
        if call.controls.only_if_cached:
            notes.outcome(timeline, reply, "MISS", miss.reason)
            raise only_if_cached()
        key = _key(call, question)
        is_shared = self._flights.find(key) is not None
        notes.outcome(timeline, reply, "MISS", "shared" if is_shared else miss.reason)
        await self._fetch(call, miss.ticket, request, reply, timeline, key=key)

    async def _fetch(
        self,
        call: Call,
        ticket: Ticket | None,
        request: Request,
        reply: Reply,
        timeline: Timeline,
        *,
        key: Hashable | None = None,
    ) -> None:
        """Ask a backend; whoever asks the same under the same `key` meanwhile shares the call (None: nobody)."""

        produce = partial(self._asking.produce, call, ticket, timeline)
        async with self._flights.join(key, produce) as seat, departure(request, seat.abandon):
            head = await seat.head()
            if head.is_elsewhere:
                notes.shared(timeline, reply)
            if not seat.is_leader or head.is_elsewhere:
                timeline.links.append(head.span)  # the call is another request's; this one only shares it
            elif timeline.cache_reason == "shared":
                timeline.cache_reason = "promoted"  # whoever led the call failed, and this one made it anew
            reading = await relay_out(head, seat, reply, call)
            if seat.is_leader and not head.is_elsewhere:
                notes.answered(timeline, reading)
                # The caller has everything; what is left is the write, which belongs into this trace.
                await seat.settled()


def _shortest(*times_s: float | None) -> float | None:
    return min((time_s for time_s in times_s if time_s is not None), default=None)


async def _split(raw: bytes, model: str | None) -> tuple[Body, ApiError | None]:
    """The body, or an empty one and why it cannot be read: such a request counts against the limits too."""
    try:
        return await split_aside(raw, model=model), None
    except ApiError as error:
        return Body({}, {}), error


def _key(call: Call, question: Question) -> Hashable:
    """Whoever takes another's answer must have asked the very same thing, down to the text and what is echoed."""
    return question.partition.digest, question.text, canonical(dict(call.echo)) if call.echo else None
