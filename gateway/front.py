"""The data plane's door: finds the handler of a request, and turns whatever goes wrong into one clear reply.

A plain ASGI application with a table of paths. FastAPI serves the admin plane and describes this one; a route inside it
would cost more than a cache hit does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from backends import BackendError

from . import notes
from .data.cors import Cors
from .data.embeddings import PATH as EMBEDDINGS
from .data.embeddings import Embeddings
from .data.endpoints import Endpoint
from .data.feedback import PATH as FEEDBACK
from .data.feedback import FeedbackDesk
from .data.health import Health
from .data.me import PATH as ME
from .data.me import Me
from .data.models import PREFIX as MODELS
from .data.models import Models
from .data.passthrough import PassThrough
from .data.paths import canonical, nearest
from .data.protocol import ALL_HERE
from .data.wire import Delivery, Receive, Reply, Request, Scope, Send
from .dialects import DIALECTS
from .errors import NO_RETRY, ApiError, MethodNotAllowed, NotFound, TimedOut, from_backend, place_of
from .flight import ClientLeft, TooSlow
from .pipeline import Pipeline
from .telemetry.telemetry import Telemetry
from .telemetry.timeline import Timeline

_log = structlog.get_logger("gateway.front")

CLIENT_CLOSED = 499  # nginx's word for a client that left before its answer

Handler = Callable[[Request, Reply, Timeline], Awaitable[None]]


class Timed(Protocol):
    """A handler that asks a model server, and may take until `deadline_s` (monotonic)."""

    async def __call__(
        self, request: Request, reply: Reply, timeline: Timeline, *, deadline_s: float
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Route:
    methods: tuple[str, ...]
    name: str
    handler: Handler


class Front:
    def __init__(
        self,
        *,
        pipeline: Pipeline,
        embeddings: Embeddings,
        passing: PassThrough,
        passed_on: Mapping[str, Endpoint],
        models: Models,
        me: Me,
        feedback: FeedbackDesk,
        health: Health,
        telemetry: Telemetry,
        longest_request_s: Callable[[], float],
        cors: Cors,
        delivery: Delivery,
    ) -> None:
        self._health = health
        self._telemetry = telemetry
        self._longest_request_s = longest_request_s
        self._cors = cors
        self._delivery = delivery
        self._routes = {
            route.name: route
            for route in (
                *(_post(each.path, self._in_time, partial(pipeline.answer, each)) for each in DIALECTS),
                _post(EMBEDDINGS, self._in_time, embeddings.answer),
                *(
                    _post(path, self._in_time, partial(passing.answer, each))
                    for path, each in passed_on.items()
                ),
                Route(("GET", "HEAD"), MODELS, models.answer),
                Route(("GET", "HEAD"), ME, me.answer),
                Route(("POST",), FEEDBACK, feedback.answer),
            )
        }
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _refuse(scope, send)
            return
        path: str = scope["path"]
        client = scope.get("client")
        request = Request(
            scope["method"],
            path,
            scope["headers"],
            receive,
            client[0] if client else "unknown",
            is_here=scope.get("extensions") is ALL_HERE,
        )
        reply = Reply(
            send,
            is_head=request.method == "HEAD",
            accept_encoding=request.headers.get(b"accept-encoding"),
            delivery=self._delivery,
        )
        if self._cors:
            if self._cors.is_preflight(request):
                await self._cors.preflight(request, reply)
                return
            self._cors.mark(request, reply)
        route = self._routes.get(path) or self._find(request)
        if route is None:
            await self._untraced(request, reply)
            return
        self.in_flight += 1
        try:
            await self._traced(route, request, reply)
        finally:
            reply.stop()
            self.in_flight -= 1

    def _find(self, request: Request) -> Route | None:
        """The route of a path that is written in another way, which the request is then told of."""
        path, request.model = canonical(request.path, self._routes)
        route = self._routes[MODELS] if path.startswith(MODELS + "/") else self._routes.get(path)
        if route is not None:
            request.path = path
        return route

    async def _untraced(self, request: Request, reply: Reply) -> None:
        """Health checks, which are never limited, traced or charged, and everything that is not there."""
        health = {"/health/live": self._health.live, "/health/ready": self._health.ready}.get(
            request.path.rstrip("/")
        )
        if health is None:
            await _fail(request, reply, _not_found(request.path, self._routes))
        elif request.method in ("GET", "HEAD"):
            await health(reply)
        else:
            await _other_method(request, reply, ("GET", "HEAD"))

    async def _traced(self, route: Route, request: Request, reply: Reply) -> None:
        timeline = self._telemetry.begin(f"{request.method[:16]} {route.name}", request.raw_headers)
        timeline.endpoint = route.name
        notes.identify(timeline, reply)
        try:
            if request.method in route.methods:
                await self._guarded(route, request, reply, timeline)
            else:
                await _other_method(request, reply, route.methods)
        finally:
            timeline.first_byte_at = reply.first_byte_s if reply.status == 200 else None
            timeline.finish(reply.status or CLIENT_CLOSED)
            self._telemetry.record(timeline)

    async def _guarded(self, route: Route, request: Request, reply: Reply, timeline: Timeline) -> None:
        """Whatever the handler raises becomes a reply, an error frame, or the note that the client had left."""
        failure: ApiError
        try:
            await route.handler(request, reply, timeline)
            return
        except ClientLeft:
            timeline.finish(CLIENT_CLOSED)
            return
        except TooSlow:
            timeline.error_type = "slow_client"
            failure = TimedOut(
                "The answer was not read as fast as it came.", code="slow_client", headers=NO_RETRY
            )
        except ApiError as error:
            failure = error
        except BackendError as error:
            failure = from_backend(error)
        except TimeoutError:
            failure = TimedOut("The request did not end within its deadline.", headers=NO_RETRY)
        except (
            Exception
        ) as error:  # the last boundary: a fault of ours is one log line and a 500, never a silence
            _log.error(
                "unexpected",
                error=type(error).__name__,
                request_id=timeline.request_id,
                where=place_of(error),
            )
            failure = ApiError("The gateway failed; the request id says where to look.")
        if failure.status >= 400 and not reply.is_ended:
            timeline.error_type = timeline.error_type or failure.code
            await _fail(request, reply, failure)

    async def _in_time(self, answer: Timed, request: Request, reply: Reply, timeline: Timeline) -> None:
        timeout_s = min(self._longest_request_s(), _client_timeout_s(request))
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_s):
            await answer(request, reply, timeline, deadline_s=loop.time() + timeout_s)


def _post(
    path: str, in_time: Callable[[Timed, Request, Reply, Timeline], Awaitable[None]], answer: Timed
) -> Route:
    return Route(("POST",), path, partial(in_time, answer))


def _client_timeout_s(request: Request) -> float:
    """The official SDKs say how long they will wait; an answer after that reaches nobody."""
    try:
        seconds = float(request.headers.get(b"x-stainless-read-timeout", b"inf"))
    except ValueError:
        return float("inf")
    return seconds if seconds > 0 else float("inf")


def _not_found(path: str, endpoints: Iterable[str]) -> NotFound:
    near = nearest(path, endpoints)
    hint = f" Did you mean {near}? The base URL ends in /v1; the model goes into the body." if near else ""
    return NotFound(f"There is no {path[:128]} here.{hint}", headers=NO_RETRY)


async def _other_method(request: Request, reply: Reply, allowed: tuple[str, ...]) -> None:
    reply.add("allow", ", ".join((*allowed, "OPTIONS")))
    if request.method == "OPTIONS":
        await reply.empty()
    else:
        words = f"{request.method[:16]} is not answered here; use {' or '.join(allowed)}."
        await _fail(request, reply, MethodNotAllowed(words, headers=NO_RETRY))


async def _fail(request: Request, reply: Reply, error: ApiError) -> None:
    if not await request.drain():
        reply.add("connection", "close")
    await reply.fail(error)


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
