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
from typing import Protocol

from ..errors import DisabledKey, ExpiredKey, InvalidKey, KeysUnavailable
from ..model import KeyWarning, Lineage, Principal, Rights
from .headers import presented_key
from .keys import PresentedKey, matching, read_key
from .principal import disabled_level, principal_of

# Guessed key ids must not push out known keys, so absence is remembered apart, and not much of it.
_ABSENT_CAPACITY = 1_000


class Keys(Protocol):
    """The part of a `Directory` that requests need."""

    async def find(self, key_id: str, *, deadline: float | None = None) -> Lineage | None: ...


@dataclass(frozen=True, slots=True)
class _Known:
    """A key as last read, and what follows from it; no lineage: there is no such key. `fresh_until_s` is when to
    ask again, `stale_until_s` when to stop trusting it."""

    lineage: Lineage | None
    principal: Principal | None
    disabled: str | None
    fresh_until_s: float
    stale_until_s: float


class Authenticator:
    """Belongs to one event loop. `rights` are those of a key of which nothing else is said.

    `fresh_s` bounds how long a change of a key, its service or its tenant goes unseen, `stale_s` how long a
    known key works without the store. `on_use` is told the id of every key that was right. `now` is a monotonic
    clock and `wall` the wall clock of expiries, both in seconds.
    """

    def __init__(
        self,
        keys: Keys,
        *,
        rights: Rights = Rights(),  # noqa: B008 - frozen
        on_use: Callable[[str], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        fresh_s: float = 1.0,
        stale_s: float = 600.0,
        capacity: int = 10_000,
    ) -> None:
        self._keys = keys
        self._rights = rights
        self._on_use = on_use
        self._now = now
        self._wall = wall
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

        Raises `MissingKey`, `ConflictingKeys`, `InvalidKey` (to who has the secret: `DisabledKey` or
        `ExpiredKey`), or `KeysUnavailable` by the deadline.
        """
        presented = read_key(presented_key(headers))
        if presented is None:
            raise InvalidKey("This is not an Echogate key: they look like 'eg-<id>-<secret>'.")
        known = self._fresh(presented.key_id)
        if known is None:
            known = await self._look_up(presented.key_id, deadline=deadline)
        principal = self._decide(presented, known)
        self._on_use(presented.key_id)
        return principal

    def forget(self, key_id: str) -> None:
        """The key changed: ask the store at its next use. An answer that is under way is not kept."""
        self._known.pop(key_id, None)
        self._absent.pop(key_id, None)
        self._asking.pop(key_id, None)

    def forget_tenant(self, tenant: str) -> None:
        """The same for all keys of a tenant, which changed itself, or one of its services did."""
        for key_id, known in list(self._known.items()):
            if known.lineage is not None and known.lineage.tenant.name == tenant:
                del self._known[key_id]
        self._asking.clear()  # whose keys those are is not known yet

    def _decide(self, presented: PresentedKey, known: _Known) -> Principal:
        """Unknown id and wrong secret go the same way; all other refusals are for who has the secret."""
        lineage, principal = known.lineage, known.principal
        match = matching(presented, lineage.key if lineage is not None else None)
        if lineage is None or principal is None or match is None:
            raise InvalidKey("This key does not exist, or its secret is another one.")
        if known.disabled is not None:
            raise DisabledKey(f"This {known.disabled} is disabled. Ask whoever gave you the key.")
        now_s = self._wall()
        if lineage.key.expires_at_s is not None and now_s >= lineage.key.expires_at_s:
            raise ExpiredKey("This key has expired. Ask whoever gave it to you for another one.")
        old = lineage.key.old_secret
        if match == "current" or old is None:
            return principal
        if now_s >= old.ends_at_s:
            raise ExpiredKey(
                "This key was rotated, and the time for its old secret is over: use the new one."
            )
        warning = KeyWarning("secret-was-rotated", old.ends_at_s)
        return replace(principal, warnings=(*principal.warnings, warning))

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
            answer = self._judged(await self._keys.find(key_id, deadline=deadline), asked_s=asked_s)
        except KeysUnavailable as error:
            answer = self._stale(key_id) or error
        # After `forget` this is an answer of before the change: good for those who asked then, not to keep.
        if self._asking.get(key_id) is asyncio.current_task():
            del self._asking[key_id]
            if isinstance(answer, _Known):
                self._keep(key_id, answer)
        return answer

    def _judged(self, lineage: Lineage | None, *, asked_s: float) -> _Known:
        principal = disabled = None
        if lineage is not None:
            principal = principal_of(lineage, rights=self._rights, now_s=self._wall())
            disabled = disabled_level(lineage)
        return _Known(
            lineage=lineage,
            principal=principal,
            disabled=disabled,
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
        if known.lineage is None:
            self._known.pop(key_id, None)
            cache, capacity = self._absent, _ABSENT_CAPACITY
        else:
            self._absent.pop(key_id, None)
            cache, capacity = self._known, self._capacity
        cache[key_id] = known
        if len(cache) > capacity:
            cache.popitem(last=False)
