"""One call for all processes: who is about to ask for an answer says so in the store, and others wait for it.

A claim is a lease on one entry. Its holder renews it while it works; when the holder dies, the others wait no longer
than the lease. It also fences: an answer is stored under a claim only while that claim stands (entries/store.py), so
whoever lost it in a long pause does not write over its successor.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from redis.exceptions import ResponseError

from ..errors import StoreUnavailable
from ..identity import keys_in
from ..interfaces import Argument, EntryStore, Store
from ..model import Entry, Ticket, Value

_COMMAND_S = 0.25
_FIRST_LOOK_S, _LAST_LOOK_S = 0.01, 0.2

# KEYS: claim. ARGV: token, lease in ms.
_RENEW = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


class Claimed(Value, frozen=True):
    """`token` is empty where nothing was claimed; `entry` is the answer that made a claim needless."""

    token: bytes = b""
    entry: Entry | None = None
    has_waited: bool = False


class Claims:
    """`lease_s` is how long others wait in vain for a holder that died. 0: nothing is claimed, nobody waits."""

    def __init__(
        self,
        store: Store,
        entries: EntryStore,
        *,
        secret: bytes,
        lease_s: float = 2.0,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._entries = entries
        self._secret = secret
        self._lease_s = lease_s
        self._lease_ms = max(1, int(lease_s * 1000))
        self._now = now
        self._wall = wall

    async def claim(self, ticket: Ticket, *, until: float) -> Claimed:
        """A claim on the ticket's entry, or the answer that whoever had claimed it stored; waits for that until
        `until` (monotonic) at most, and then leaves it unclaimed."""
        if not self._lease_s:
            return Claimed()
        has_waited = False
        while (token := await self._take(ticket)) is None:
            entry = await self._wait(ticket, until=until)
            if entry is not None or self._now() >= until:
                return Claimed(entry=entry, has_waited=True)
            has_waited = True
        return Claimed(token, has_waited=has_waited)

    @asynccontextmanager
    async def held(self, ticket: Ticket, token: bytes) -> AsyncIterator[None]:
        """Keeps the claim while inside, and gives it back at the end, however that comes."""
        if not token:
            yield
            return
        key, loop = self._key(ticket), asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def renew() -> None:
            nonlocal timer
            timer = loop.call_later(self._lease_s / 3, renew)
            self._send(_RENEW, key, token, self._lease_ms)

        # No task: most claims are given back long before they are renewed.
        timer = loop.call_later(self._lease_s / 3, renew)
        try:
            yield
        finally:
            timer.cancel()
            self._send(_RELEASE, key, token)

    def _send(self, script: str, key: str, *args: Argument) -> None:
        """Now, and not awaited: whoever is being cancelled must not wait for the store. When the store is away, the
        lease ends by itself, or is renewed in time by the next try."""
        sent = asyncio.ensure_future(self._store.script(script, keys=[key], args=args, deadline=self._soon()))
        sent.add_done_callback(_forget)

    async def _take(self, ticket: Ticket) -> bytes | None:
        """The token; empty where the store does not answer; None: another has it."""
        token = os.urandom(8)
        try:
            is_taken = await self._store.execute(
                "SET", self._key(ticket), token, "NX", "PX", self._lease_ms, deadline=self._soon()
            )
        except (OSError, ResponseError):
            return b""  # then each asks for itself, as if there were no others
        return token if is_taken else None

    async def _wait(self, ticket: Ticket, *, until: float) -> Entry | None:
        """The answer that the holder stored, as soon as it is there; None where the claim ended without one, or
        `until` came first."""
        pause_s = _FIRST_LOOK_S
        while self._now() < until:
            await asyncio.sleep(min(pause_s, max(0.0, until - self._now())))
            pause_s = min(1.5 * pause_s, _LAST_LOOK_S)
            try:
                # Sent in this order: a claim is given back only after its answer was stored.
                claim = self._store.execute("EXISTS", self._key(ticket), deadline=self._soon())
                finding = self._entries.find(ticket.question, ticket.entry_id, deadline=self._soon())
                is_claimed, found = await claim, await finding
            except (OSError, ResponseError, StoreUnavailable):
                return None
            entry = found.entry
            if entry is not None and self._wall() - entry.created_at_s <= _oldest_s(ticket):
                return entry
            if not is_claimed:
                return None
        return None

    def _key(self, ticket: Ticket) -> str:
        return keys_in(self._secret, ticket.question.partition.namespace).claim(ticket.entry_id)

    def _soon(self) -> float:
        return self._now() + _COMMAND_S


def _oldest_s(ticket: Ticket) -> float:
    """The look-up may have found an answer, but too old a one."""
    most_s = ticket.question.max_age_s
    return math.inf if most_s is None else most_s


def _forget(sent: asyncio.Future[object]) -> None:
    if not sent.cancelled():
        sent.exception()
