"""The buckets in memory: one worker's share of the limits while the store is away, and the fake for tests."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from .levels import Ask, Bucket, Buckets, Reading, Taken, budget_key

T = TypeVar("T")

_A_MOMENT_S = 1e-6  # for rounding: what is full must fit


@dataclass(slots=True)
class _State:
    """A bucket. What is used of it depends on its kind; moments are those of the clock."""

    full_at_s: float = -math.inf
    busy_since_s: float = -math.inf
    spent: float = 0.0
    ends_s: dict[str, float] = field(default_factory=dict)  # of leases


class MemoryLimits:
    """A `LimitStore`. While `is_down`, every call raises ConnectionError; `now` is its clock in seconds.

    At most `capacity` buckets are kept, the least recently used forgotten first. A worker that decides alone
    lets everything weigh as often as there are workers: each assumes that the others take as much as it does.
    """

    def __init__(
        self, *, now: Callable[[], float] = time.monotonic, capacity: int = 10_000, lease_s: float = 15.0
    ) -> None:
        self.is_down = False
        self._now = now
        self._capacity = capacity
        self.lease_s = lease_s
        self._states: OrderedDict[str, _State] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    # --- what the interface promises

    def take(self, buckets: Buckets, ask: Ask, *, deadline: float | None = None) -> asyncio.Future[Taken]:
        return self._answer(lambda: self.take_now(buckets, ask))

    def look(self, buckets: Buckets, *, at_s: float, deadline: float | None = None) -> asyncio.Future[Taken]:
        return self._answer(lambda: self.take_now(buckets, Ask(at_s=at_s), is_taking=False))

    def settle(
        self, buckets: Buckets, ask: Ask, *, taken_at_us: float | None, tokens: float, cost: float
    ) -> asyncio.Future[None]:
        return self._answer(
            lambda: self.settle_now(buckets, ask, taken_at_us=taken_at_us, tokens=tokens, cost=cost)
        )

    async def renew(self, leases: Mapping[str, Sequence[str]]) -> None:
        def renew() -> None:
            ends_s = self._now() + self.lease_s
            for key, names in leases.items():
                self._keyed(key).ends_s.update(dict.fromkeys(names, ends_s))

        await self._answer(renew)

    # --- the same at once

    def take_now(self, buckets: Buckets, ask: Ask, *, weight: float = 1.0, is_taking: bool = True) -> Taken:
        now = self._now()
        states = [self._state(bucket, ask) for bucket in buckets.all]
        pairs = list(zip(buckets.all, states, strict=True))
        waits = [_wait_s(bucket, state, ask, weight=weight, now=now) for bucket, state in pairs]
        is_taken = is_taking and all(wait_s == 0 for wait_s in waits)
        if is_taken:
            for bucket, state in pairs:
                self._take(bucket, state, ask, weight=weight, now=now)
        readings = [
            Reading(wait_s, *_left(bucket, state, ask, weight=weight, now=now))
            for wait_s, (bucket, state) in zip(waits, pairs, strict=True)
        ]
        return Taken(is_taken, now * 1e6, readings)

    def settle_now(
        self,
        buckets: Buckets,
        ask: Ask,
        *,
        taken_at_us: float | None,
        tokens: float,
        cost: float,
        weight: float = 1.0,
    ) -> None:
        now = self._now()
        for bucket in buckets.all:
            state = self._state(bucket, ask)
            if bucket.kind == "concurrent":
                state.ends_s.pop(ask.lease, None)
            elif taken_at_us is None:
                continue
            elif bucket.kind == "budget":
                used = cost - ask.cost if bucket.is_money else tokens - ask.tokens
                state.spent = max(0.0, state.spent + used * weight)
            elif bucket.kind == "tokens/min":
                used = (tokens - min(ask.tokens, bucket.capacity)) * weight
                # A bucket that has been full since the taking has got everything back already.
                is_of_then = state.full_at_s > now and state.busy_since_s * 1e6 <= taken_at_us
                if used > 0 or is_of_then:
                    _owe(bucket, state, used, now=now)

    def hold(self, key: str, names: Iterable[str]) -> None:
        """Exactly these leases run."""
        self._keyed(key).ends_s = dict.fromkeys(names, math.inf)

    def know_spent(self, bucket: Bucket, ask: Ask, spent: float) -> None:
        """What the shared budget says: where this worker goes on from should it be alone."""
        self._state(bucket, ask).spent = spent

    # --- inside

    def _take(self, bucket: Bucket, state: _State, ask: Ask, *, weight: float, now: float) -> None:
        if bucket.kind == "concurrent":
            state.ends_s[ask.lease] = now + self.lease_s
        elif bucket.kind == "budget":
            state.spent += _amount(bucket, ask) * weight
        else:
            _owe(bucket, state, _amount(bucket, ask) * weight, now=now)

    def _state(self, bucket: Bucket, ask: Ask) -> _State:
        return self._keyed(budget_key(bucket, ask.at_s)[0] if bucket.kind == "budget" else bucket.key)

    def _keyed(self, key: str) -> _State:
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State()
            if len(self._states) > self._capacity:
                self._states.popitem(last=False)
        self._states.move_to_end(key)
        return state

    def _answer(self, decide: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self.is_down:
            future.set_exception(ConnectionError("The store of limits is down."))
            future.exception()  # seen: a caller who left is no reason to log it
        else:
            future.set_result(decide())
        return future


def _amount(bucket: Bucket, ask: Ask) -> float:
    if bucket.kind == "budget":
        return ask.cost if bucket.is_money else ask.tokens
    return min(ask.tokens, bucket.capacity) if bucket.kind == "tokens/min" else 1.0


def _wait_s(bucket: Bucket, state: _State, ask: Ask, *, weight: float, now: float) -> float | None:
    """0 where it fits, None where waiting does not help."""
    amount = _amount(bucket, ask) * weight
    if bucket.kind == "concurrent":
        held = _held(state, now=now)
        return 0.0 if held == 0 or (held + 1) * weight <= bucket.capacity else 1.0
    if amount == 0:
        return 0.0
    if bucket.kind == "budget":
        return 0.0 if state.spent + amount <= bucket.capacity * (1 + 1e-9) else None
    missing_s = max(0.0, state.full_at_s - now)
    wanted_s = missing_s + min(amount, bucket.capacity) * bucket.refill_s / bucket.capacity
    return max(0.0, wanted_s - bucket.refill_s) if wanted_s > bucket.refill_s + _A_MOMENT_S else 0.0


def _left(bucket: Bucket, state: _State, ask: Ask, *, weight: float, now: float) -> tuple[float, float]:
    """What is left, and the seconds until all is back."""
    if bucket.kind == "concurrent":
        return bucket.capacity - _held(state, now=now) * weight, 0.0
    if bucket.kind == "budget":
        return bucket.capacity - state.spent, budget_key(bucket, ask.at_s)[1].ends_at_s - ask.at_s
    missing_s = max(0.0, state.full_at_s - now)
    left = (bucket.refill_s - missing_s + _A_MOMENT_S) * bucket.capacity / bucket.refill_s
    return math.floor(left), missing_s


def _held(state: _State, *, now: float) -> int:
    for name in [name for name, ends_s in state.ends_s.items() if ends_s <= now]:
        del state.ends_s[name]
    return len(state.ends_s)


def _owe(bucket: Bucket, state: _State, amount: float, *, now: float) -> None:
    if state.full_at_s <= now:
        state.full_at_s = state.busy_since_s = now
    state.full_at_s += amount * bucket.refill_s / bucket.capacity
