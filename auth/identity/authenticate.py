"""Decides who asks: turns a request's headers into a principal, from a local cache of keys where possible.

A key is looked up at most once a second and, while the store is down, is trusted for as long as the cache may
be stale. A key that this worker has never seen cannot be judged without the store: that is `KeysUnavailable`,
never `InvalidKey`.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ..errors import InvalidKey, KeysUnavailable
from ..interfaces import KeyStore
from ..model import KeyRecord, Principal
from .headers import presented_key
from .keys import is_right, read_key

# Guessed key ids must not push out known keys, so absence is remembered apart, and not much of it.
_ABSENT_CAPACITY = 1_000


@dataclass(frozen=True, slots=True)
class _Known:
    """A key as last read. `fresh_until_s` is when to ask again, `stale_until_s` when to stop trusting it."""

    record: KeyRecord | None
    principal: Principal | None
    fresh_until_s: float
    stale_until_s: float


class Authenticator:
    """Belongs to one event loop. `fresh_s` bounds how long a revoked key still works, `stale_s` how long a
    known key works without the store; `now` is a monotonic clock in seconds.
    """

    def __init__(
        self,
        keys: KeyStore,
        *,
        now: Callable[[], float] = time.monotonic,
        fresh_s: float = 1.0,
        stale_s: float = 600.0,
        capacity: int = 10_000,
    ) -> None:
        self._keys = keys
        self._now = now
        self._fresh_s = fresh_s
        self._stale_s = stale_s
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._absent: OrderedDict[str, _Known] = OrderedDict()
        self._capacity = capacity
        self._asking: dict[str, asyncio.Task[_Known | KeysUnavailable]] = {}

    def __repr__(self) -> str:
        return (
            f"<Authenticator known={len(self._known)} absent={len(self._absent)} asking={len(self._asking)}>"
        )

    async def authenticate(
        self, headers: Iterable[tuple[bytes, bytes]], *, deadline: float | None = None
    ) -> Principal:
        """Who sent these raw ASGI headers. Does not suspend while the key is fresh.

        Raises `MissingKey`, `ConflictingKeys`, `InvalidKey`, or `KeysUnavailable` by the deadline.
        """
        presented = read_key(presented_key(headers))
        if presented is None:
            raise InvalidKey("This is not an Echogate key: they look like 'eg-<id>-<secret>'.")
        known = self._fresh(presented.key_id)
        if known is None:
            known = await self._look_up(presented.key_id, deadline=deadline)
        if not is_right(presented, known.record) or known.principal is None:
            raise InvalidKey("This key does not exist or was revoked.")
        return known.principal

    def forget(self, key_id: str) -> None:
        """The key changed: ask the store at its next use. An answer that is under way is not kept."""
        self._known.pop(key_id, None)
        self._absent.pop(key_id, None)
        self._asking.pop(key_id, None)

    def _fresh(self, key_id: str) -> _Known | None:
        known = self._known.get(key_id)
        if known is not None:
            self._known.move_to_end(key_id)
        else:
            known = self._absent.get(key_id)
        return known if known is not None and self._now() < known.fresh_until_s else None

    async def _look_up(self, key_id: str, *, deadline: float | None) -> _Known:
        task = self._asking.get(key_id)
        if task is None:
            task = asyncio.create_task(self._ask(key_id, deadline=deadline), name="look up a key")
            self._asking[key_id] = task
        # Shielded: others may wait for the same answer. The task ends by the deadline, whoever leaves.
        answer = await asyncio.shield(task)
        if isinstance(answer, KeysUnavailable):
            raise KeysUnavailable("Keys cannot be checked at the moment. Try again shortly.") from answer
        return answer

    async def _ask(self, key_id: str, *, deadline: float | None) -> _Known | KeysUnavailable:
        """What the store says or, without the store, what is known well enough. The failure is returned, as
        the callers who would take an exception may all have left."""
        asked_s = self._now()
        answer: _Known | KeysUnavailable
        try:
            answer = self._judged(await self._keys.get(key_id, deadline=deadline), asked_s=asked_s)
        except KeysUnavailable as error:
            answer = self._stale(key_id) or error
        # After `forget` this is an answer of before the change: good for those who asked then, not to keep.
        if self._asking.get(key_id) is asyncio.current_task():
            del self._asking[key_id]
            if isinstance(answer, _Known):
                self._keep(key_id, answer)
        return answer

    def _judged(self, record: KeyRecord | None, *, asked_s: float) -> _Known:
        return _Known(
            record=record,
            principal=record.principal if record is not None and record.revoked_at_s is None else None,
            fresh_until_s=asked_s + self._fresh_s,
            stale_until_s=asked_s + self._stale_s,
        )

    def _stale(self, key_id: str) -> _Known | None:
        known, now = self._known.get(key_id), self._now()
        if known is None or now >= known.stale_until_s:
            return None
        # Not asked again at once: requests must not queue up behind a store that is late.
        return replace(known, fresh_until_s=min(now + self._fresh_s, known.stale_until_s))

    def _keep(self, key_id: str, known: _Known) -> None:
        if known.record is None:
            self._known.pop(key_id, None)
            cache, capacity = self._absent, _ABSENT_CAPACITY
        else:
            self._absent.pop(key_id, None)
            cache, capacity = self._known, self._capacity
        cache[key_id] = known
        if len(cache) > capacity:
            cache.popitem(last=False)
