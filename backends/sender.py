"""Sends one request: to the member chosen, to one more if that fails before its first byte, within one deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from .errors import UpstreamBroken, UpstreamFailed, UpstreamTimeout
from .exchange import Exchange
from .interfaces import Backend, Reply
from .model import Attempt, Member, Outgoing, Timeouts, UpstreamRequest, Version
from .router import Router
from .survive import RetryBudget, failure_in_events, failure_in_status, may_retry, rest_asked
from .trial import Trial

_UNREACHED = frozenset({"connect", "reset"})


class Sender:
    """`on_unreached` is called when a member could not be reached: it may come back as another."""

    def __init__(
        self,
        router: Router,
        *,
        backend: Backend,
        timeouts: Timeouts,
        max_event_bytes: int,
        on_unreached: Callable[[], None],
    ) -> None:
        self._router = router
        self._backend = backend
        self._timeouts = timeouts
        self._max_event_bytes = max_event_bytes
        self._on_unreached = on_unreached
        self._budget = RetryBudget()

    async def open(
        self,
        version: Version,
        members: Sequence[Member],
        request: UpstreamRequest,
        *,
        deadline_s: float,
        attempts: list[Attempt],
    ) -> Exchange:
        """As `Pools.open`, for these members."""
        untried = list(members)
        self._budget.note_request(time.monotonic())
        while True:
            member = self._next(version.model, untried, request, attempts)
            try:
                exchange = await self._try(member, version, request, attempts, deadline_s)
            except UpstreamFailed as error:
                if self._may_retry(attempts, untried, request, deadline_s):
                    continue
                error.attempts = tuple(attempts)
                raise
            if attempts[-1].error is None or not self._may_retry(attempts, untried, request, deadline_s):
                return exchange
            await exchange.aclose()

    def _next(
        self, model: str, untried: list[Member], request: UpstreamRequest, attempts: list[Attempt]
    ) -> Member:
        member, candidates = self._router.choose(
            model, untried, needs=request.needs, affinity=request.affinity
        )
        untried[:] = [other for other in untried if other.name != member.name]
        number = len(attempts) + 1
        attempts.append(Attempt(number, member.name, started_s=time.monotonic(), candidates=candidates))
        return member

    def _may_retry(
        self, attempts: list[Attempt], untried: list[Member], request: UpstreamRequest, deadline_s: float
    ) -> bool:
        now_s = time.monotonic()
        return may_retry(
            len(attempts),
            has_untried=bool(self._router.eligible(untried, request.needs)),
            now_s=now_s,
            deadline_s=deadline_s,
        ) and self._budget.take(now_s)

    async def _try(
        self,
        member: Member,
        version: Version,
        request: UpstreamRequest,
        attempts: list[Attempt],
        deadline_s: float,
    ) -> Exchange:
        """One attempt. Whatever goes wrong, cancellation too, the count is given back and the attempt tells of it."""
        attempt = attempts[-1]
        timeouts = self._timeouts_of(version)
        trial = self._router.begin(
            member, version=version, is_stream=request.is_stream, patience_s=timeouts.first_byte_s
        )
        exchange: Exchange | None = None
        try:
            reply = await self._send(member, request, attempt, timeouts, deadline_s)
            exchange = Exchange(
                reply,
                upstream_model=member.upstream_model,
                attempts=attempts,
                trial=trial,
                idle_s=timeouts.idle_s,
                deadline_s=deadline_s,
                max_event_bytes=self._max_event_bytes,
            )
            await self._judge(exchange, attempt, trial, until_s=attempt.started_s + timeouts.first_byte_s)
        except BaseException as error:
            attempt.error = _word(error)
            attempt.ended_s = time.monotonic()
            if attempt.error in _UNREACHED:
                self._on_unreached()
            if exchange is not None:
                exchange.close()
            trial.end(attempt.error)
            raise
        return exchange

    def _timeouts_of(self, version: Version) -> Timeouts:
        pool = self._router.pools.get(version.model)
        return self._timeouts if pool is None or pool.timeouts is None else pool.timeouts

    async def _send(
        self,
        member: Member,
        request: UpstreamRequest,
        attempt: Attempt,
        timeouts: Timeouts,
        deadline_s: float,
    ) -> Reply:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise UpstreamTimeout("no time was left to send the request", reason="too-late")
        accept = "text/event-stream" if request.is_stream else "application/json"
        headers = {"accept": accept, "content-type": "application/json", **request.headers(attempt.number)}
        return await self._backend.send(
            member,
            Outgoing("POST", request.path, headers, request.body(member)),
            connect_s=min(timeouts.connect_s, left_s),
            # The head of a whole answer comes with its body: giving up earlier would throw away a long generation.
            first_byte_s=min(timeouts.first_byte_s, left_s) if request.is_stream else left_s,
        )

    async def _judge(self, exchange: Exchange, attempt: Attempt, trial: Trial, *, until_s: float) -> None:
        """Note a failure that came as an answer; a stream shows itself only in its first event."""
        attempt.status = exchange.status
        attempt.error = failure_in_status(exchange.status)
        if (rest_s := rest_asked(exchange.status, exchange.headers)) is not None:
            trial.note_rest(rest_s)
        if exchange.is_stream:
            events = await exchange.await_first_events(until_s=until_s)
            failure = failure_in_events(events)
            if failure is not None:
                raise UpstreamBroken(f"{attempt.member} began no answer ({failure})", reason=failure)
        attempt.first_byte_s = time.monotonic()
        if attempt.error is None:
            trial.note_answer(is_first_token=exchange.is_stream)


def _word(error: BaseException) -> str:
    if isinstance(error, UpstreamFailed):
        return error.reason
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "internal"
