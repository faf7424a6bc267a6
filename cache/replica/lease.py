"""A lease in the store: of all processes one holds it, and when that one dies another gets it a little later."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ..entries.scan import answered
from ..interfaces import Store

_COMMAND_S = 2.0

# KEYS: lease. ARGV: token, lease in ms. 1 where it is the token's, now and for that long.
_TAKE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


class Lease:
    """All methods raise `StoreUnavailable`. Who acts under a lease takes it again before every act: it is then known to
    last for another `lease_s`."""

    def __init__(
        self, store: Store, name: str, *, lease_s: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._name = name
        self._lease_ms = int(lease_s * 1000)
        self._token = os.urandom(8)
        self._now = now

    async def take(self) -> bool:
        """Take it, or keep it. False: another has it."""
        took = self._store.script(
            _TAKE, keys=[self._name], args=[self._token, self._lease_ms], deadline=self._now() + _COMMAND_S
        )
        return bool(await answered(took))

    async def release(self) -> None:
        done = self._store.script(
            _RELEASE, keys=[self._name], args=[self._token], deadline=self._now() + _COMMAND_S
        )
        await answered(done)
