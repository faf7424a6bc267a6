"""The pools: which version a request gets, which member tries, and what happens when it fails.

How a choice is made is `choose/`, what counts as failure `survive/`, how bytes travel `vllm.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Mapping, Sequence
from typing import Self

from .choose import InFlight, Revisions, Versions, two_choices
from .errors import UpstreamBroken, UpstreamFailed, UpstreamTimeout
from .exchange import Exchange
from .interfaces import Backend, Reply
from .model import Attempt, Member, Outgoing, Timeouts, UpstreamRequest, Version
from .survive import Cooldown, failure_in_events, failure_in_status, may_retry

_REVISION_TIMEOUT_S = 2.0
_REVISION_INTERVAL_S = 60.0
_DOUBT_INTERVAL_S = 2.0
_COOLDOWN_S = 2.0
_UNREACHED = frozenset({"connect", "reset"})


class Pools:
    """Members by public model name; their own names are unique. `start` before use, `aclose` after; or `async with`."""

    def __init__(
        self,
        pools: Mapping[str, Sequence[Member]],
        *,
        backend: Backend,
        timeouts: Timeouts | None = None,
        max_event_bytes: int = 4 << 20,
        rng: random.Random | None = None,
    ) -> None:
        members = _by_name(pools)
        self._pools = {model: tuple(members) for model, members in pools.items()}
        self._backend = backend
        self._timeouts = timeouts or Timeouts()
        self._max_event_bytes = max_event_bytes
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, hides nothing
        self._members = members
        self._in_flight = InFlight()
        self._cooldown = Cooldown(period_s=_COOLDOWN_S, clock=time.monotonic)
        self._revisions = Revisions(list(members.values()), backend=backend, timeout_s=_REVISION_TIMEOUT_S)
        self._versions = Versions(self._pools, revision_of=self._revisions.__getitem__)
        self._refreshing: asyncio.Task[None] | None = None
        self._doubt = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Ask the servers for their revisions once (a few seconds at most), then again every minute."""
        if self._revisions.has_guesses:
            await self._refresh()
            self._refreshing = asyncio.create_task(self._keep_refreshing())

    async def aclose(self) -> None:
        """Stop asking and close idle connections. Exchanges must have been closed before."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        await self._backend.aclose()

    def models(self) -> list[str]:
        return list(self._pools)

    def resolve(self, model: str, *, sticky: str | None = None) -> Version:
        """The version this request gets, by the weights of the versions' members. Raises `UnknownModel`.

        The same `sticky` text gets the same version while the weights stay.
        """
        return self._versions.pick(model, sticky=sticky, rng=self._rng)

    def in_flight(self) -> dict[str, int]:
        """Open requests by member, of this worker."""
        return {name: self._in_flight[name] for name in self._members}

    def __repr__(self) -> str:
        loads = ", ".join(
            f"{name}@{self._revisions[name].label}={count}" for name, count in self.in_flight().items()
        )
        return f"<Pools {', '.join(self._pools)}: {loads}>"

    async def open(
        self,
        version: Version,
        request: UpstreamRequest,
        *,
        deadline_s: float,
        attempts: list[Attempt] | None = None,
    ) -> Exchange:
        """Send to the least loaded member of the version, once more to another if that fails before its first byte.

        `deadline_s` is a moment on `time.monotonic()` and bounds everything, the body too. Refusals (4xx) are answers.
        A 5xx is returned only when every attempt has been made; a stream is returned with its first event in it.
        Raises `NoBackend`, `UpstreamTimeout` or `UpstreamBroken`. `attempts`, if given, is filled in as it goes, so
        that a cancelled caller can tell what was tried.
        """
        attempts = [] if attempts is None else attempts
        untried = list(self._versions.members(version))
        while True:
            attempt = self._next_attempt(untried, number=len(attempts) + 1)
            attempts.append(attempt)
            try:
                exchange = await self._try(request, attempts, deadline_s)
            except UpstreamFailed as error:
                if self._may_retry(attempts, untried, deadline_s):
                    continue
                error.attempts = tuple(attempts)
                raise
            if attempt.error is None or not self._may_retry(attempts, untried, deadline_s):
                return exchange
            await exchange.aclose()

    def _next_attempt(self, untried: list[Member], *, number: int) -> Attempt:
        usable = self._cooldown.usable(untried)
        member, candidates = two_choices(usable, load=self._in_flight.__getitem__, rng=self._rng)
        untried.remove(member)
        return Attempt(number, member.name, started_s=time.monotonic(), candidates=candidates)

    def _may_retry(self, attempts: list[Attempt], untried: list[Member], deadline_s: float) -> bool:
        return may_retry(
            len(attempts), has_untried=bool(untried), now_s=time.monotonic(), deadline_s=deadline_s
        )

    async def _try(self, request: UpstreamRequest, attempts: list[Attempt], deadline_s: float) -> Exchange:
        """One attempt. Whatever goes wrong, cancellation too, the count is given back and the attempt tells of it."""
        attempt = attempts[-1]
        lease = self._in_flight.take(attempt.member)
        exchange: Exchange | None = None
        try:
            reply = await self._send(request, attempt, deadline_s)
            exchange = Exchange(
                reply,
                attempts=attempts,
                lease=lease,
                idle_s=self._timeouts.idle_s,
                deadline_s=deadline_s,
                max_event_bytes=self._max_event_bytes,
            )
            await self._judge(exchange, attempt)
        except BaseException as error:
            attempt.error = _word(error)
            attempt.ended_s = time.monotonic()
            if attempt.error in _UNREACHED:
                self._cooldown.note_failure(attempt.member)
                self._doubt.set()
            if exchange is not None:
                exchange.close()
            lease.release()
            raise
        self._cooldown.note_success(attempt.member)
        return exchange

    async def _send(self, request: UpstreamRequest, attempt: Attempt, deadline_s: float) -> Reply:
        member = self._members[attempt.member]
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise UpstreamTimeout("no time was left to send the request", reason="deadline")
        accept = "text/event-stream" if request.is_stream else "application/json"
        headers = {"accept": accept, "content-type": "application/json", **request.headers(attempt.number)}
        return await self._backend.send(
            member,
            Outgoing("POST", request.path, headers, request.body(member.upstream_model)),
            connect_s=min(self._timeouts.connect_s, left_s),
            first_byte_s=min(self._timeouts.first_byte_s, left_s),
        )

    async def _judge(self, exchange: Exchange, attempt: Attempt) -> None:
        """Note a failure that came as an answer; a stream shows itself only in its first event."""
        attempt.status = exchange.status
        attempt.error = failure_in_status(exchange.status)
        if exchange.is_stream:
            events = await exchange.await_first_events(
                until_s=attempt.started_s + self._timeouts.first_byte_s
            )
            failure = failure_in_events(events)
            if failure is not None:
                raise UpstreamBroken(f"{attempt.member} began no answer ({failure})", reason=failure)
        attempt.first_byte_s = time.monotonic()

    async def _keep_refreshing(self) -> None:
        """Every minute; soon where a server did not answer, or was just not reached: it may come back as another."""
        while True:
            await asyncio.sleep(_DOUBT_INTERVAL_S)
            if self._revisions.are_complete:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_REVISION_INTERVAL_S):
                        await self._doubt.wait()
            self._doubt.clear()
            await self._refresh()

    async def _refresh(self) -> None:
        if await self._revisions.refresh():
            self._versions.update()


def _word(error: BaseException) -> str:
    if isinstance(error, UpstreamFailed):
        return error.reason
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "internal"


def _by_name(pools: Mapping[str, Sequence[Member]]) -> dict[str, Member]:
    members: dict[str, Member] = {}
    for model, listed in pools.items():
        if not listed:
            raise ValueError(f"the pool of {model!r} has no members")
        for member in listed:
            if member.weight <= 0:
                raise ValueError(f"the weight of {member.name!r} is {member.weight}; it must be above 0")
            if member.name in members:
                raise ValueError(f"two members are named {member.name!r}; names must be unique")
            members[member.name] = member
    return members
