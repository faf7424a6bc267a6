"""Counts what the cache did in each namespace, and what its hits saved: by day, of all workers, without a text.

Counted in memory as requests pass, written behind them once a second into the store of the role `cache`, where a day is
kept for a month. What the store does not take is lost: it informs, it decides nothing (`usage` counts what is charged).
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from redis.exceptions import RedisError

from auth import Prices
from cache import Hit, Miss

from ..telemetry.timeline import Timeline
from ..usage.store import Store

DAYS_KEPT = 31
TOP = 10

_EVERY_S = 1.0
_DAY_S = 86_400
_HOUR_S = 3_600
_PATIENCE_S = 2.0
_NAMESPACES = 1_000  # between two writes
_ENTRIES = 1_000  # of a namespace between two writes, and kept of its day
_NAMES = "eg:tallies"

# KEYS: the day's counters, the day's entries. ARGV: how long they are kept, how many entries are, how many counters
# follow, and pairs of name and amount, first of counters, then of entries. An entry that comes and goes at the end of
# the list loses its count: those at its head are right.
_ADD = """
for at = 4, 3 + 2 * ARGV[3], 2 do redis.call('HINCRBYFLOAT', KEYS[1], ARGV[at], ARGV[at + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[1])
if #ARGV > 3 + 2 * ARGV[3] then
  for at = 4 + 2 * ARGV[3], #ARGV, 2 do redis.call('ZINCRBY', KEYS[2], ARGV[at + 1], ARGV[at]) end
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[2])
  redis.call('EXPIRE', KEYS[2], ARGV[1])
end
return 1
"""


class Totals(msgspec.Struct):
    """What became of a namespace's requests. `saved` is what its hits would have cost had a model answered: tokens,
    seconds of waiting, money by the price list. `entries`: the answers that were served most, by id."""

    requests: int = 0
    hits: Counter[str] = msgspec.field(default_factory=Counter)  # by tier
    refusals: Counter[str] = msgspec.field(default_factory=Counter)  # by reason
    saved: dict[str, float] = msgspec.field(default_factory=dict)
    entries: Counter[str] = msgspec.field(default_factory=Counter)


class _Pending:
    """Of one namespace since the last write."""

    def __init__(self) -> None:
        self.counters: dict[str, float] = {}
        self.entries: dict[int, int] = {}

    def add(self, name: str, amount: float = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + amount


class Tallies:
    """The owner runs `run` and cancels it."""

    def __init__(
        self,
        store: Store,
        *,
        secret: bytes,
        prices: Prices,
        wall: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._secret = secret
        self._prices = prices
        self._wall = wall
        self._now = now
        self._pending: dict[str, _Pending] = {}

    def note(self, label: str, found: Hit | Miss, timeline: Timeline) -> None:
        """A request was looked up. Costs next to nothing, and never fails."""
        pending = self._of(label)
        if pending is None:
            return
        if isinstance(found, Miss):
            pending.add(f"refusal/{found.reason}")
            return
        pending.add(f"hit/{found.tier}")
        for name, amount in self._saved(found, timeline):
            pending.add(f"saved/{name}", amount)
        entry_id = found.entry.entry_id
        if entry_id in pending.entries or len(pending.entries) < _ENTRIES:
            pending.entries[entry_id] = pending.entries.get(entry_id, 0) + 1

    def note_bypass(self, label: str, reason: str) -> None:
        pending = self._of(label)
        if pending is not None:
            pending.add(f"refusal/{reason}")

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.flush()
            except (OSError, RedisError):
                continue  # away: what was counted since the last time is lost

    async def flush(self) -> None:
        """Raises OSError or RedisError if the store does not take it."""
        taken, self._pending = self._pending, {}
        if not taken:
            return
        day, kept_s = int(self._wall()) // _DAY_S, (DAYS_KEPT + 1) * _DAY_S
        deadline = self._now() + _PATIENCE_S
        writes = [self._store.execute("SADD", _NAMES, *taken, deadline=deadline)]
        writes.append(self._store.execute("EXPIRE", _NAMES, kept_s, deadline=deadline))
        for label, pending in taken.items():
            counted: list[str | int | float] = [kept_s, _ENTRIES, len(pending.counters)]
            for name, amount in pending.counters.items():
                counted += (name, f"{amount:.9f}")
            for entry_id, hits in pending.entries.items():
                counted += (f"{entry_id:016x}", hits)
            keys = self._keys(label, day)
            writes.append(self._store.script(_ADD, keys=keys, args=counted, deadline=deadline))
        await asyncio.gather(*writes)

    async def labels(self) -> list[str]:
        """Of all namespaces that were asked in the last month. Raises OSError or RedisError."""
        names = await self._store.execute("SMEMBERS", _NAMES, deadline=self._now() + _PATIENCE_S)
        return sorted(name.decode() for name in names)

    async def read(self, days: int, *, tenant: str | None = None) -> dict[str, Totals]:
        """Of each namespace (of this tenant only), over so many days up to now. Raises OSError or RedisError."""
        deadline = self._now() + _PATIENCE_S
        labels = await self.labels()
        wanted = [label for label in labels if tenant is None or label.startswith(f"{tenant}/")]
        found = await asyncio.gather(*(self._read(label, days, deadline) for label in wanted))
        return {label: totals for label, totals in zip(wanted, found, strict=True) if totals.requests}

    async def hits(self, label: str, entry_ids: Sequence[str]) -> list[int]:
        """How often these entries of a namespace answered in the last month, as far as that was counted. Raises OSError
        or RedisError."""
        newest, deadline = int(self._wall()) // _DAY_S, self._now() + _PATIENCE_S
        days = await asyncio.gather(
            *(
                self._store.execute("ZMSCORE", self._keys(label, day)[1], *entry_ids, deadline=deadline)
                for day in range(newest - DAYS_KEPT + 1, newest + 1)
            )
        )
        return [sum(round(float(each or 0)) for each in scores) for scores in zip(*days, strict=True)]

    async def requests_since(self, label: str, at_s: float) -> int:
        """From the hour of that moment on (wall clock). Raises OSError or RedisError."""
        deadline = self._now() + _PATIENCE_S
        first = max(int(at_s) // _DAY_S, int(self._wall()) // _DAY_S - DAYS_KEPT)
        days = range(first, int(self._wall()) // _DAY_S + 1)
        kept = await asyncio.gather(
            *(self._store.execute("HGETALL", self._keys(label, day)[0], deadline=deadline) for day in days)
        )
        return sum(
            round(amount)
            for day, fields in zip(days, kept, strict=True)
            for kind, name, amount in _counters(fields)
            if kind == "hour" and day * _DAY_S + (int(name) + 1) * _HOUR_S > at_s
        )

    def _of(self, label: str) -> _Pending | None:
        pending = self._pending.get(label)
        if pending is None:
            if len(self._pending) >= _NAMESPACES:
                return None
            pending = self._pending[label] = _Pending()
        pending.add(f"hour/{int(self._wall()) % _DAY_S // _HOUR_S}")
        return pending

    def _saved(self, hit: Hit, timeline: Timeline) -> Iterator[tuple[str, float]]:
        origin = hit.entry.answer.origin
        tokens = int(origin.get("input_tokens", 0)), int(origin.get("output_tokens", 0))
        yield "input_tokens", tokens[0]
        yield "output_tokens", tokens[1]
        cost = self._prices.cost(timeline.model or "", input_tokens=tokens[0], output_tokens=tokens[1])
        yield "cost", cost
        took_s = int(origin.get("took_ms", 0)) / 1000
        yield "seconds", max(0.0, took_s - timeline.duration_s)

    async def _read(self, label: str, days: int, deadline: float) -> Totals:
        newest = int(self._wall()) // _DAY_S
        asked = []
        for day in range(newest - days + 1, newest + 1):
            counters, entries = self._keys(label, day)
            asked.append(self._store.execute("HGETALL", counters, deadline=deadline))
            asked.append(
                self._store.execute("ZRANGE", entries, 0, 5 * TOP, "REV", "WITHSCORES", deadline=deadline)
            )
        kept = await asyncio.gather(*asked)
        totals = Totals()
        for fields in kept[::2]:
            _add(totals, fields)
        for ranked in kept[1::2]:
            for entry_id, hits in zip(ranked[::2], ranked[1::2], strict=True):
                totals.entries[entry_id.decode()] += round(float(hits))
        return totals

    def _keys(self, label: str, day: int) -> tuple[str, str]:
        tag = hmac.digest(self._secret, b"tally\0" + label.encode(), "sha256")[:12].hex()
        return f"eg:{{n:{tag}}}:{day}", f"eg:{{n:{tag}}}:{day}:entries"


def _add(totals: Totals, fields: Sequence[bytes] | Mapping[bytes, bytes]) -> None:
    for kind, name, amount in _counters(fields):
        match kind:
            case "hour":
                totals.requests += round(amount)
            case "hit":
                totals.hits[name] += round(amount)
            case "refusal":
                totals.refusals[name] += round(amount)
            case "saved":
                totals.saved[name] = totals.saved.get(name, 0.0) + amount


def _counters(fields: Sequence[bytes] | Mapping[bytes, bytes]) -> Iterator[tuple[str, str, float]]:
    flat = [each for pair in fields.items() for each in pair] if isinstance(fields, Mapping) else fields
    for field, amount in zip(flat[::2], flat[1::2], strict=True):
        kind, _, name = field.decode().partition("/")
        yield kind, name, float(amount)
