"""The way of requests that no text is kept for: let in like any other, then sent to the pool of the model they name.

    authenticate → read the body → limit → scope, model, version → (the handler) → settle

What the handler does in between is its own: hand on a reply as it comes (data/passthrough.py), or look each input of
a batch up first (data/embeddings.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from auth import Principal, Scope
from backends import Exchange, Member, Pools, UpstreamRequest

from . import notes
from .admission import Admissions
from .answers import Reading, Usage
from .body import Body, Json, canonical, split_aside
from .callers import Callers
from .data.form import FormModel, find_model
from .data.wire import Reply, Request, departure
from .errors import ApiError, InvalidRequest
from .flight import ClientLeft
from .routing import Route, Routing
from .sending import sent
from .telemetry.timeline import Timeline

# From which members of a body others make gateways call any address with their own credentials.
_ADDRESSES = ("api_base", "base_url", "api_key")
_NOTHING_GENERATED: Mapping[str, Json] = {"max_tokens": 0}


@dataclass(frozen=True, slots=True)
class Entrant:
    """A request that was let in. `form` is where the model stands in a body that is a form and not JSON."""

    principal: Principal
    body: Body
    raw: bytes
    model: str
    route: Route
    form: FormModel | None = None

    @property
    def wants_stream(self) -> bool:
        return self.body.values.get("stream") is True

    def body_for(self, member: Member, replacements: Mapping[str, str] | None = None) -> bytes:
        """The caller's own but for the model's name there, our own controls, and members that are to be others."""
        if self.form is not None:
            return self.form.renamed(self.raw, member.upstream_model)
        named = {"model": canonical(member.upstream_model), **(replacements or {})}
        ours: dict[str, str | None] = {"cache": None} if "cache" in self.body.values else {}
        return self.body.joined({**named, **self.route.fields_for(member, self.body.values), **ours})


class Passage:
    """Lets requests in, and sends them on."""

    def __init__(
        self,
        *,
        callers: Callers,
        admissions: Admissions,
        routing: Routing,
        pools: Pools,
        body_limit_bytes: int,
        store_deadline_s: float,
    ) -> None:
        self._callers = callers
        self._admissions = admissions
        self._routing = routing
        self._pools = pools
        self._body_limit_bytes = body_limit_bytes
        self._store_deadline_s = store_deadline_s

    @asynccontextmanager
    async def admitted(
        self,
        request: Request,
        reply: Reply,
        timeline: Timeline,
        *,
        scope: Scope,
        deadline_s: float,
        generates: bool = True,
        is_form: bool = False,
    ) -> AsyncIterator[Entrant]:
        """Inside, the request counts against its limits; they are settled at the end by the timeline's tokens.

        Raises ApiError, and ClientLeft inside where the client goes away.
        """
        principal = await self._callers.identify(request, timeline)
        raw = await request.body(self._body_limit_bytes, is_json=not is_form)
        form, body, malformed = await _read_body(raw, request, is_form=is_form)
        started = time.monotonic()  # only now: reading a large body must not use up the store's time
        text_bytes = (
            0 if is_form else len(raw)
        )  # sounds and pictures are no text: their bytes say nothing of tokens
        values = body.values if generates else {**body.values, **_NOTHING_GENERATED}
        admission = self._admissions.begin(
            principal, values, body_bytes=text_bytes, deadline=started + self._store_deadline_s
        )
        try:
            if malformed is not None:
                raise malformed
            model = _model(body, form)
            timeline.is_stream = body.values.get("stream") is True
            route = self._routing.permitted(
                model,
                principal,
                body,
                request.headers,
                scope=scope,
                body_bytes=text_bytes,
                began_s=timeline.started,
                deadline_s=deadline_s,
            )
            timeline.model = model
        except ApiError:
            await admission.decided(timeline, reply, started=started)  # a refused request counts as well
            admission.settle(timeline, reply)
            raise
        await admission.decided(timeline, reply, started=started)
        try:
            async with _while_there(request, reply):
                yield Entrant(principal, body, raw, model, route, form)
        finally:
            admission.settle(timeline, reply)

    @asynccontextmanager
    async def sent(
        self,
        entrant: Entrant,
        timeline: Timeline,
        *,
        path: str,
        operation: str,
        body: Callable[[Member], bytes],
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Exchange]:
        """The reply of the least loaded server, noted with what `timeline` then says of tokens. Raises ApiError."""
        upstream = notes.UpstreamSpans(timeline, operation=operation)
        request = UpstreamRequest(
            path=path,
            body=body,
            headers=lambda attempt: {**(headers or {}), **upstream.headers(attempt)},
            is_stream=entrant.wants_stream,
            needs=entrant.route.needs,
            affinity=entrant.route.affinity,
        )
        async with sent(
            self._pools,
            entrant.route.version,
            request,
            deadline_s=entrant.route.deadline_s,
            upstream=upstream,
            timeline=timeline,
            reading=lambda: _counted(timeline),
        ) as exchange:
            yield exchange


def _counted(timeline: Timeline) -> Reading | None:
    if timeline.input_tokens is None:
        return None
    return Reading(b"", "", Usage(timeline.input_tokens, timeline.output_tokens or 0), "text", None)


async def _read_body(
    raw: bytes, request: Request, *, is_form: bool
) -> tuple[FormModel | None, Body, ApiError | None]:
    """An empty body and why it cannot be read, where it cannot: such a request counts against the limits too."""
    try:
        if is_form:
            return _form_of(raw, request), Body({}, {}), None
        return None, await split_aside(raw, model=request.model), None
    except ApiError as error:
        return None, Body({}, {}), error


def _form_of(raw: bytes, request: Request) -> FormModel:
    return find_model(raw, request.headers.get(b"content-type", b""), model=request.model)


def _model(body: Body, form: FormModel | None) -> str:
    for name in _ADDRESSES:
        if name in body.values:
            raise InvalidRequest(f"{name} is not accepted in a request.", param=name)
    model = body.values.get("model") if form is None else form.model
    if not isinstance(model, str) or not model:
        raise InvalidRequest("model must be a non-empty string.", param="model")
    return model


@asynccontextmanager
async def _while_there(request: Request, reply: Reply) -> AsyncIterator[None]:
    """Whatever is awaited inside ends with ClientLeft once the client has gone before its reply was whole."""
    task, has_left = asyncio.current_task(), False

    def leave() -> None:
        nonlocal has_left
        if task is not None and not has_left and not reply.is_ended:
            has_left = True
            task.cancel()

    try:
        async with departure(request, leave):
            yield
    except asyncio.CancelledError:
        if has_left and task is not None and not task.uncancel():
            raise ClientLeft from None
        raise
