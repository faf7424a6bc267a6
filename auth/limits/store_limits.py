"""Owns how buckets are asked for in a Redis-protocol store: one script call with all keys of a request in it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..interfaces import Argument, Store
from .levels import Ask, Bucket, Buckets, Reading, Taken, budget_key
from .model import Kind
from .script import BUCKETS

_LETTERS: dict[Kind, bytes] = {
    "requests/s": b"r",
    "requests/min": b"r",
    "tokens/min": b"t",
    "concurrent": b"c",
    "budget": b"b",
}
_DAY_S = 86_400
_PATIENCE_S = 1.0  # of settlements and renewals, for which no request waits
_RENEW_CHUNK = 500  # leases in a script call: it holds up everybody else's commands


class StoreLimits:
    """The `LimitStore` over a Redis-protocol store. A lease ends `lease_s` after it was taken or renewed."""

    def __init__(self, store: Store, *, lease_s: float = 15.0) -> None:
        self._store = store
        self.lease_s = lease_s
        self._lease_us = round(lease_s * 1e6)
        # What does not change from one request of a key to the next, up to the end of the day.
        self._written = lru_cache(maxsize=10_000)(self._write)

    def take(self, buckets: Buckets, ask: Ask, *, deadline: float | None = None) -> Awaitable[Taken]:
        written = self._written(buckets, ask.at_s // _DAY_S)
        args = written.filled(ask) if buckets.has_reserve else written.args
        return _Taking(self._store.script(BUCKETS, keys=written.keys, args=args, deadline=deadline))

    def look(self, buckets: Buckets, *, at_s: float, deadline: float | None = None) -> Awaitable[Taken]:
        written = self._written(buckets, at_s // _DAY_S)
        args = [b"look", *written.args[1:]]
        return _Taking(self._store.script(BUCKETS, keys=written.keys, args=args, deadline=deadline))

    def settle(
        self, buckets: Buckets, ask: Ask, *, taken_at_us: float | None, tokens: float, cost: float
    ) -> Awaitable[None]:
        written = self._written(buckets, ask.at_s // _DAY_S)
        keys: list[str] = []
        args: list[Argument] = [b"settle", taken_at_us or 0]
        for at, (bucket, key) in enumerate(zip(buckets.all, written.keys, strict=True)):
            change: Argument
            if bucket.kind == "concurrent":
                change = ask.lease
            elif taken_at_us is None or not (change := _change(bucket, ask, tokens=tokens, cost=cost)):
                continue
            keys.append(key)
            args += [*written.args[4 * at + 1 : 4 * at + 4], change]
        if not keys:
            nothing = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        return self._store.script(BUCKETS, keys=keys, args=args, deadline=time.monotonic() + _PATIENCE_S)

    async def renew(self, leases: Mapping[str, Sequence[str]]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        renewed = [
            self._store.script(BUCKETS, keys=keys, args=[b"renew", self._lease_us, *args], deadline=deadline)
            for keys, args in _chunks(leases)
        ]
        for reply in renewed:  # all have left together
            await reply

    def _write(self, buckets: Buckets, day: float) -> _Written:
        keys: list[str] = []
        args: list[Argument] = [b"take"]
        slots = _Slots([], [], [])
        for bucket in buckets.all:
            span = bucket.refill_s * 1e6
            key = bucket.key
            amount_at = len(args) + 3
            if bucket.kind == "budget":
                key, period = budget_key(bucket, day * _DAY_S)
                span = period.ends_at_s
                (slots.cost if bucket.is_money else slots.tokens).append(amount_at)
            elif bucket.kind == "tokens/min":
                slots.tokens.append(amount_at)
            elif bucket.kind == "concurrent":
                span = self._lease_us
                slots.lease.append(amount_at)
            keys.append(key)
            args += [_LETTERS[bucket.kind], bucket.capacity, span, b"1"]
        return _Written(tuple(keys), tuple(args), slots)


@dataclass(frozen=True, slots=True)
class _Slots:
    """Where in the arguments stands what a request brings along."""

    tokens: list[int]
    cost: list[int]
    lease: list[int]


@dataclass(frozen=True, slots=True)
class _Written:
    """The keys and the arguments of a script call, but for the slots."""

    keys: tuple[str, ...]
    args: tuple[Argument, ...]
    slots: _Slots

    def filled(self, ask: Ask) -> Sequence[Argument]:
        slots = self.slots
        args = list(self.args)
        for at in slots.tokens:
            args[at] = ask.tokens
        for at in slots.cost:
            args[at] = ask.cost
        for at in slots.lease:
            args[at] = ask.lease
        return args


class _Taking(Awaitable[Taken]):
    """The answer of a script that has left already. No coroutine: one who never awaits it does no harm."""

    __slots__ = ("_reply",)

    def __init__(self, reply: Awaitable[Any]) -> None:
        self._reply = reply

    def __await__(self) -> Generator[Any, None, Taken]:
        is_taken, at_us, *rows = yield from self._reply.__await__()
        readings = [
            Reading(None if rows[at] < 0 else rows[at] / 1e6, float(rows[at + 1]), rows[at + 2] / 1e6)
            for at in range(0, len(rows), 3)
        ]
        return Taken(is_taken == 1, at_us, readings)


def _change(bucket: Bucket, ask: Ask, *, tokens: float, cost: float) -> float:
    """What was used beyond what was taken."""
    if bucket.is_money:
        return cost - ask.cost
    if bucket.kind == "budget":
        return tokens - ask.tokens
    return tokens - min(ask.tokens, bucket.capacity) if bucket.kind == "tokens/min" else 0.0


def _chunks(leases: Mapping[str, Sequence[str]]) -> Iterator[tuple[list[str], list[Argument]]]:
    """The keys and arguments of the calls: one tenant's keys in each, as they lie in one slot of a cluster."""
    tenants: dict[str, list[str]] = defaultdict(list)
    for key in leases:
        tenants[key.partition("}")[0]].append(key)
    for keys in tenants.values():
        chunk: list[str] = []
        args: list[Argument] = []
        for key in keys:
            for start in range(0, len(leases[key]), _RENEW_CHUNK):
                names = leases[key][start : start + _RENEW_CHUNK]
                if len(args) + len(names) > _RENEW_CHUNK and chunk:
                    yield chunk, args
                    chunk, args = [], []
                chunk.append(key)
                args += [len(names), *names]
        if chunk:
            yield chunk, args
