"""Keeps for a while what the cache decided about each request, under its minted id: numbers, ids and reasons, no texts.

Written in the background, many in one command, into one hash for each minute of the store of the role `cache`, where
all expires. What is beyond the bound of records a minute is dropped: it explains, it decides nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

import msgspec
from redis.exceptions import RedisError

from cache import Hit, Miss, Question, SemanticCache, Tier

from ..call import Call
from ..telemetry.timeline import Timeline
from .partition_parts import parts_of

_FORMAT = 1
_EVERY_S = 0.05
_WAITING = 10_000
_MOST_A_MINUTE = 12_000
_AT_ONCE = 100  # made into records in one turn of the loop: a millisecond or two
_PARTS_AT_ONCE = 10  # of each batch: they cost more than all the rest
_SAMPLE = 200  # of each minute
_MINUTE_S = 60
_PATIENCE_S = 2.0


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """`question_id` and `entry_id` are the cache's numbers; equal where the question's own entry answered.

    `answer_id` stands for the answer that was served, None on a miss. `alias_id`: the entry that was near, where the
    one that answered is whose alias it is. `verdict` holds what it went by: features,
    threshold, and version of the namespace's standing. `parts` are the partition's, as digests, of some misses.
    """

    request_id: str
    tenant: str
    service: str
    key_id: str
    at_s: float
    model: str
    namespace: str
    partition: bytes
    question_id: int
    outcome: Literal["hit", "miss"]
    reason: str | None
    tier: Tier | None = None
    entry_id: int | None = None
    answer_id: int | None = None
    similarity: float | None = None
    verdict: dict[str, float] = {}
    state: str = ""
    parts: dict[str, bytes] = {}
    alias_id: int | None = None


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    format: int
    decision: Decision


class Store(Protocol):
    def execute(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> Awaitable[Any]: ...


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Kept)


class Decisions:
    """The owner runs `run` and cancels it."""

    def __init__(
        self,
        store: Store,
        cache: SemanticCache,
        *,
        secret: bytes,
        kept_s: int,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._cache = cache
        self._secret = secret
        self._kept_s = kept_s
        self._wall = wall
        self._waiting: deque[tuple[Call, Question, Hit | Miss, Timeline, float]] = deque(maxlen=_WAITING)
        self._minute = 0
        self._this_minute = 0

    def note(self, call: Call, question: Question, found: Hit | Miss, timeline: Timeline) -> None:
        self._waiting.append((call, question, found, timeline, self._wall()))

    async def find(self, request_id: str) -> Decision | None:
        """Raises OSError if the store does not answer."""
        newest = self._minute_now()
        deadline = time.monotonic() + _PATIENCE_S
        minutes = range(newest, newest - self._kept_s // _MINUTE_S - 2, -1)
        asked = [
            self._store.execute("HGET", _key(minute), request_id, deadline=deadline) for minute in minutes
        ]
        return next(filter(None, map(_read, await asyncio.gather(*asked))), None)

    async def sample(self) -> list[Decision]:
        """Some of each minute, at random. Raises OSError if the store does not answer."""
        newest = self._minute_now()
        deadline = time.monotonic() + _PATIENCE_S
        minutes = range(newest, newest - self._kept_s // _MINUTE_S - 2, -1)
        asked = [
            self._store.execute("HRANDFIELD", _key(minute), _SAMPLE, "WITHVALUES", deadline=deadline)
            for minute in minutes
        ]
        found = [data for fields in await asyncio.gather(*asked) for data in fields[1::2]]
        return [decision for decision in map(_read, found) if decision is not None]

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.flush()
            except (OSError, RedisError):
                continue  # away: these few are not explained

    async def flush(self) -> None:
        """Raises OSError if the store does not take them."""
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), _AT_ONCE))]
            minute = self._minute_now()
            if minute != self._minute:
                self._minute, self._this_minute = minute, 0
            self._this_minute += len(taken)
            if self._this_minute <= _MOST_A_MINUTE:
                await self._write(
                    minute,
                    [self._decision(*each, with_parts=at < _PARTS_AT_ONCE) for at, each in enumerate(taken)],
                )

    async def _write(self, minute: int, decisions: list[Decision]) -> None:
        fields: list[str | bytes] = []
        for decision in decisions:
            fields += (decision.request_id, _encoder.encode(_Kept(_FORMAT, decision)))
        deadline = time.monotonic() + _PATIENCE_S
        written = self._store.execute("HSET", _key(minute), *fields, deadline=deadline)
        expires = self._store.execute("EXPIRE", _key(minute), self._kept_s + _MINUTE_S, deadline=deadline)
        await asyncio.gather(written, expires)

    def _minute_now(self) -> int:
        return int(self._wall()) // _MINUTE_S

    def _decision(
        self,
        call: Call,
        question: Question,
        found: Hit | Miss,
        timeline: Timeline,
        at_s: float,
        *,
        with_parts: bool,
    ) -> Decision:
        hit = found if isinstance(found, Hit) else None
        verdict = found.verdict
        near = found.ticket.near if isinstance(found, Miss) and found.ticket else None
        standing = self._cache.standing(question.partition.namespace)
        return Decision(
            request_id=timeline.request_id,
            tenant=timeline.tenant or "",
            service=timeline.service or "",
            key_id=timeline.key_id or "",
            at_s=at_s,
            model=timeline.model or "",
            namespace=question.partition.namespace,
            partition=question.partition.digest,
            question_id=self._question_id(question, found),
            outcome="hit" if hit else "miss",
            reason=timeline.cache_reason if isinstance(found, Miss) else found.reason,
            tier=hit.tier if hit else None,
            entry_id=hit.entry.entry_id if hit else near.entry_id if near else None,
            answer_id=self._cache.answer_id(hit.entry.answer) if hit else None,
            similarity=found.similarity,
            verdict={} if verdict is None else {**verdict.features, "threshold": verdict.threshold},
            state=f"{standing.state}, version {standing.version}",
            parts=parts_of(call.material, secret=self._secret) if with_parts and hit is None else {},
            alias_id=hit.alias_id if hit else None,
        )

    def _question_id(self, question: Question, found: Hit | Miss) -> int:
        """Mostly the look-up tells it; to make it anew is the dearest part of a record."""
        if isinstance(found, Hit) and found.is_exact:
            return found.entry.entry_id
        if isinstance(found, Miss) and found.ticket is not None:
            return found.ticket.entry_id
        return self._cache.entry_id(question)


def _read(data: bytes | None) -> Decision | None:
    try:
        kept = _decoder.decode(data or b"")
    except msgspec.MsgspecError:
        return None
    return kept.decision if kept.format == _FORMAT else None


def _key(minute: int) -> str:
    return f"eg:d:{minute}"
