"""Owns usage in the durable store: counters of every key, service and tenant by minute, hour and day.

A hash holds the buckets of one name over a while (an hour of minutes, a day of hours, a month of days), all in the
tenant's slot of a cluster, and goes when nobody asks for that while any more.
"""

from __future__ import annotations

import calendar
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol

import msgspec

Level = Literal["key", "service", "tenant"]
Bucket = Literal["minute", "hour", "day"]

_DAY_S = 86_400
_TIMEOUT_S = 2.0


class Counts(msgspec.Struct):
    """What some requests used. Tokens are those of model servers; `saved` ones those of stored answers.

    `limited` requests were refused by a limit, `failed` ones got no whole answer for another reason.
    """

    requests: int = 0
    hits_exact: int = 0
    hits_semantic: int = 0
    shared: int = 0
    limited: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    saved_input_tokens: int = 0
    saved_output_tokens: int = 0
    cost: float = 0.0

    def add(self, other: Counts) -> None:
        for name in COUNTERS:
            if amount := getattr(other, name):
                setattr(self, name, getattr(self, name) + amount)


COUNTERS: Final = Counts.__struct_fields__


class Tally(NamedTuple):
    """Whose request it was, of a tenant that is known, and in which minute since 1970."""

    service: str
    key_id: str
    minute: int


class Span(NamedTuple):
    """How buckets of one length are kept: so long each, named so within their hash, gone after a while."""

    length_s: int
    group: str
    keep_s: int


SPANS: Final[dict[Bucket, Span]] = {
    "minute": Span(60, "%Y-%m-%dT%H", 2 * _DAY_S),
    "hour": Span(3_600, "%Y-%m-%d", 62 * _DAY_S),
    "day": Span(_DAY_S, "%Y-%m", 800 * _DAY_S),
}

# KEYS[1]: the number of the sender's last batch. KEYS[2..]: hashes; ARGV after the number: for each how long it is
# kept, how many pairs follow, and the pairs of field and amount.
_ADD = """
if tonumber(redis.call('GET', KEYS[1]) or '0') >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', 86400)
local at = 2
for hash = 2, #KEYS do
  local keep, pairs = ARGV[at], tonumber(ARGV[at + 1])
  at = at + 2
  for _ = 1, pairs do
    redis.call('HINCRBYFLOAT', KEYS[hash], ARGV[at], ARGV[at + 1])
    at = at + 2
  end
  redis.call('EXPIRE', KEYS[hash], keep)
end
return 1
"""


class Store(Protocol):
    def execute(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> Awaitable[Any]: ...

    def script(
        self,
        source: str,
        *,
        keys: Sequence[bytes | str | int | float],
        args: Sequence[bytes | str | int | float],
        deadline: float | None = None,
    ) -> Awaitable[Any]: ...


class UsageStore:
    """Both methods raise OSError or RedisError when the store cannot answer."""

    def __init__(self, store: Store, *, now: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._now = now

    async def add(self, tenant: str, tallies: Mapping[Tally, Counts], *, sender: str, number: int) -> None:
        """Count a batch, once however often it is sent."""
        hashes = _by_hash(tenant, tallies)
        args: list[str | int | float] = [number]
        for (_, keep_s), fields in hashes.items():
            args += [keep_s, len(fields)]
            for field, amount in fields.items():
                args += [field, _number(amount)]
        keys = (f"{_prefix(tenant)}:sent:{sender}", *(key for key, _ in hashes))
        await self._store.script(_ADD, keys=keys, args=args, deadline=self._now() + _TIMEOUT_S)

    async def read(
        self, tenant: str, level: Level, name: str, bucket: Bucket, *, start_s: int, end_s: int
    ) -> list[tuple[int, Counts]]:
        """The buckets that begin within [start, end), oldest first, by when they begin; empty ones are left out."""
        groups = dict.fromkeys(_group(bucket, at_s) for at_s in range(start_s, end_s, SPANS[bucket].length_s))
        deadline = self._now() + _TIMEOUT_S
        replies = [
            self._store.execute("HGETALL", _hash(tenant, level, name, bucket, group), deadline=deadline)
            for group in groups
        ]
        found: dict[int, Counts] = {}
        for reply in replies:
            for at_s, counter, amount in _read(await reply):
                if start_s <= at_s < end_s and counter in COUNTERS:
                    counts = found.setdefault(at_s, Counts())
                    setattr(counts, counter, amount if counter == "cost" else round(amount))
        return sorted(found.items())


def _by_hash(tenant: str, tallies: Mapping[Tally, Counts]) -> dict[tuple[str, int], dict[str, float]]:
    """What is to be added to which field of which hash (with how long that is kept)."""
    hashes: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for tally, counts in tallies.items():
        at_s = tally.minute * 60
        amounts = [(name, amount) for name in COUNTERS if (amount := getattr(counts, name))]
        for bucket, span in SPANS.items():
            group, begins = _group(bucket, at_s), at_s // span.length_s * span.length_s
            for level, name in (("key", tally.key_id), ("service", tally.service), ("tenant", tenant)):
                fields = hashes[_hash(tenant, level, name, bucket, group), span.keep_s]
                for counter, amount in amounts:
                    fields[f"{begins}/{counter}"] += amount
    return hashes


def _prefix(tenant: str) -> str:
    return f"eg:{{t:{tenant}}}:u"


def _hash(tenant: str, level: str, name: str, bucket: Bucket, group: str) -> str:
    return f"{_prefix(tenant)}:{level}:{name}:{bucket}:{group}"


def _group(bucket: Bucket, at_s: int) -> str:
    return time.strftime(SPANS[bucket].group, time.gmtime(at_s))


def _read(reply: Any) -> Iterator[tuple[int, str, float]]:
    flat = [item for pair in reply.items() for item in pair] if isinstance(reply, dict) else reply
    for field, amount in zip(flat[::2], flat[1::2], strict=True):
        begins, _, counter = field.decode().partition("/")
        yield int(begins), counter, float(amount)


def _number(amount: float) -> str:
    return f"{amount:.12f}".rstrip("0").rstrip(".")


def month_start_s(at_s: float) -> int:
    year, month, *_ = time.gmtime(at_s)
    return calendar.timegm((year, month, 1, 0, 0, 0))
