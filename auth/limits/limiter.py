"""Decides whether a request may go on: by the buckets that all workers share, or by policy while they are away.

A request takes its share of everything when it starts and is settled when it ends. What a caller who left
within the round trip had asked for stays taken: requests and tokens refill, leases end, a budget is charged
the estimate. So does what a killed worker had taken.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from redis.exceptions import RedisError

from ..errors import LimitsUnavailable
from .interfaces import LimitStore
from .levels import Ask, Buckets, Taken, live, meters, refusal
from .memory import MemoryLimits
from .model import Grant, LevelLimits, LimiterState, LiveLimit, Refusal, StorePolicy

_PRINCIPALS = 10_000


class Limited(Protocol):
    """The part of a principal that limits are about."""

    @property
    def key_id(self) -> str: ...

    @property
    def tenant(self) -> str: ...

    @property
    def limits(self) -> tuple[LevelLimits, ...]: ...


class Limiter:
    """Use it as an async context manager, so that the leases of running requests are renewed.

    `policy` says what happens while the store is away: `local` (each worker allows its share, limit ÷
    `live_workers()`), `closed` (`LimitsUnavailable`) or `open` (everything passes). `now` is a monotonic clock
    in seconds, `wall` the time of day by which budgets have their days.
    """

    def __init__(
        self,
        store: LimitStore,
        *,
        live_workers: Callable[[], int],
        policy: StorePolicy = "local",
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._live_workers = live_workers
        self._policy: StorePolicy = policy
        self._now = now
        self._wall = wall
        self._local = MemoryLimits(now=now)
        self._buckets: OrderedDict[str, tuple[tuple[LevelLimits, ...], Buckets]] = OrderedDict()
        # Names of leases are this worker's own: it alone renews and ends them.
        self._prefix, self._numbers = secrets.token_hex(6), itertools.count()
        self._leases: dict[str, set[str]] = defaultdict(set)
        self._is_shared, self._since_s, self._alone = True, now(), 0
        self._renewing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Limiter {self.state}>"

    async def __aenter__(self) -> Self:
        self._renewing = asyncio.create_task(self._renew(), name="renew leases")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])

    @property
    def state(self) -> LimiterState:
        leases = sum(len(names) for names in self._leases.values())
        return LimiterState(self._policy, self._is_shared, self._since_s, self._alone, leases)

    # --- a request

    def take(
        self, principal: Limited, *, tokens: int = 0, cost: float = 0.0, deadline: float | None = None
    ) -> Awaitable[Grant | Refusal]:
        """Take one request, a reservation of `tokens` and of `cost`, and a lease. The command leaves now; await
        the result. Raises `LimitsUnavailable` where the policy is `closed` and the store cannot answer."""
        buckets = self._buckets_of(principal)
        if not buckets.all:
            return _unlimited()
        ask = Ask(
            tokens,
            cost,
            f"{self._prefix}{next(self._numbers):x}" if buckets.leased else "",
            self._wall() if buckets.has_budget else 0.0,
        )
        return _Taking(self, buckets, ask, self._store.take(buckets, ask, deadline=deadline))

    def settle(self, grant: Grant, *, tokens: int, cost: float = 0.0) -> None:
        """Put what was used (0 for what failed and for a hit) in the place of what was reserved, and end the
        lease. Returns at once; a second time does nothing. If the store is away the reservation stays."""
        if not isinstance(grant, _Held) or grant.is_settled:
            return
        grant.is_settled = True
        buckets, ask = grant.buckets, grant.ask
        self._drop(buckets, ask)
        if grant.is_local:
            self._local.settle_now(
                buckets, ask, taken_at_us=grant.taken_at_us, tokens=tokens, cost=cost, weight=grant.weight
            )
        # A late answer may have taken a lease after all. What else it took is not known, and stays.
        taken_at_us = None if grant.is_local else grant.taken_at_us
        self._store.settle(buckets, ask, taken_at_us=taken_at_us, tokens=tokens, cost=cost)

    async def look(
        self, tenant: str, levels: Sequence[LevelLimits], *, deadline: float | None = None
    ) -> tuple[LiveLimit, ...]:
        """How limits stand, taking nothing. Raises `LimitsUnavailable` if the store cannot answer."""
        buckets = Buckets.of(tenant, levels)
        try:
            return live(buckets, await self._store.look(buckets, at_s=self._wall(), deadline=deadline))
        except (OSError, RedisError) as error:
            raise LimitsUnavailable("The store of limits does not answer.") from error

    def _buckets_of(self, principal: Limited) -> Buckets:
        """Made once for a key, until its limits change."""
        limits = principal.limits
        known = self._buckets.get(principal.key_id)
        if known is not None and known[0] is limits:
            return known[1]
        # A key that was read anew has new limits, mostly equal ones.
        is_same = known is not None and known[0] == limits
        buckets = known[1] if known is not None and is_same else Buckets.of(principal.tenant, limits)
        self._buckets[principal.key_id] = (limits, buckets)
        if len(self._buckets) > _PRINCIPALS:
            self._buckets.popitem(last=False)
        return buckets

    # --- decisions

    def decide(self, buckets: Buckets, ask: Ask, taken: Taken) -> Grant | Refusal:
        """By what the store said."""
        self._note(is_shared=True)
        if buckets.has_budget:
            for bucket, reading in zip(buckets.all, taken.readings, strict=True):
                if bucket.kind == "budget":
                    self._local.know_spent(bucket, ask, bucket.capacity - reading.remaining)
        return self._answer(buckets, ask, taken)

    def decide_alone(self, buckets: Buckets, ask: Ask, error: Exception) -> Grant | Refusal:
        """By policy, as the store did not answer."""
        self._note(is_shared=False)
        self._alone += 1
        if self._policy == "closed":
            self.leave(buckets, ask)
            raise LimitsUnavailable("The store of limits does not answer.") from error
        if self._policy == "open":
            return self._hold(buckets, ask, _Held(None, None, True, buckets, ask, 0.0, weight=0))
        workers = max(1, self._live_workers())
        for key in buckets.leased:
            self._local.hold(key, self._leases.get(key, ()))  # those that the store granted count as well
        taken = self._local.take_now(buckets, ask, weight=workers)
        return self._answer(buckets, ask, taken, weight=workers)

    def leave(self, buckets: Buckets, ask: Ask) -> None:
        """Whatever the store may have taken for a caller who is not told: its lease ends now."""
        if buckets.leased:
            self._store.settle(buckets, ask, taken_at_us=None, tokens=0, cost=0.0)

    def _answer(
        self, buckets: Buckets, ask: Ask, taken: Taken, *, weight: int | None = None
    ) -> Grant | Refusal:
        """`weight` where it was decided alone."""
        is_local = weight is not None
        requests, tokens = meters(buckets, taken)
        if not taken.is_taken:
            if is_local:
                self.leave(buckets, ask)
            limit, retry_after_s = refusal(buckets, taken)
            return Refusal(limit, retry_after_s, requests, tokens, is_local)
        if not buckets.has_reserve:
            return Grant(requests, tokens, is_local)
        held = _Held(requests, tokens, is_local, buckets, ask, taken.at_us, weight=weight or 0)
        return self._hold(buckets, ask, held)

    def _hold(self, buckets: Buckets, ask: Ask, held: _Held) -> Grant:
        for key in buckets.leased:
            self._leases[key].add(ask.lease)
        return held

    def _drop(self, buckets: Buckets, ask: Ask) -> None:
        for key in buckets.leased:
            names = self._leases[key]
            names.discard(ask.lease)
            if not names:
                del self._leases[key]

    def _note(self, *, is_shared: bool) -> None:
        if is_shared is not self._is_shared:
            self._is_shared, self._since_s = is_shared, self._now()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._store.lease_s / 3)
            leases = {key: tuple(names) for key, names in self._leases.items()}
            try:
                await self._store.renew(leases)
            except (OSError, RedisError):
                continue  # while the store is away leases may end; the next round takes them again


@dataclass(slots=True, eq=False)
class _Held(Grant):
    """A grant of which something is to be given back. `weight` is what it counted for in this worker alone."""

    buckets: Buckets = field(repr=False)
    ask: Ask
    taken_at_us: float
    weight: int
    is_settled: bool = False


class _Taking(Awaitable[Grant | Refusal]):
    """A decision under way. No coroutine: one who never awaits it does no harm."""

    __slots__ = ("_ask", "_buckets", "_limiter", "_taken")

    def __init__(self, limiter: Limiter, buckets: Buckets, ask: Ask, taken: Awaitable[Taken]) -> None:
        self._limiter = limiter
        self._buckets = buckets
        self._ask = ask
        self._taken = taken

    def __await__(self) -> Generator[Any, None, Grant | Refusal]:
        try:
            taken = yield from self._taken.__await__()
        except (OSError, RedisError) as error:
            return self._limiter.decide_alone(self._buckets, self._ask, error)
        except asyncio.CancelledError:
            self._limiter.leave(self._buckets, self._ask)
            raise
        return self._limiter.decide(self._buckets, self._ask, taken)


def _unlimited() -> Awaitable[Grant | Refusal]:
    future: asyncio.Future[Grant | Refusal] = asyncio.get_running_loop().create_future()
    future.set_result(Grant(None, None, False))
    return future
