"""Keeps the directory in the durable store: tenants, services and keys, read whole and changed one at a time.

A key is stored by itself and read together with its service and tenant, by one script. So a change of a tenant is
one write, in force for all its keys, and no copy can be out of date; it takes all records in one slot of a
cluster, which is no burden, as each worker asks for a key at most once a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from redis.exceptions import RedisError

from ..errors import AlreadyThere, KeysUnavailable, NoSuchRecord, StillInUse
from ..interfaces import Argument, DurableStore
from ..model import (
    KeyRecord,
    KeyRef,
    Lineage,
    Page,
    R,
    Record,
    Ref,
    Service,
    Tenant,
    TenantRef,
    Written,
)
from .directory_scripts import ADD, CHANGE, DELETE, FIND, NOTE_USE
from .failover import KeptWrites, tightened
from .listing import read_page
from .records import (
    LAST_USED,
    RECORDS,
    SERVICES,
    TENANTS,
    decoded,
    dependents_of,
    encoded,
    field_of,
    keys_of,
    kind_of,
    lineage_of,
    lists_of,
    member_of,
    parents_of,
    ref_of,
    services_range,
)
from .rules import check

_RACES = 20  # lost in a row, before a change is given up
_CHUNK = 500  # uses noted at a time


class StoreDirectory:
    """The `Directory` over a Redis-protocol store.

    `admin_timeout_s` bounds every call but `find`; `replica_timeout_s` how long a change then waits for a
    replica, where the store has one. While a change waits, so does whatever else uses the same connection:
    requests should have another. `now` is the clock of deadlines.
    """

    def __init__(
        self,
        store: DurableStore,
        *,
        now: Callable[[], float] = time.monotonic,
        admin_timeout_s: float = 2.0,
        replica_timeout_s: float = 0.5,
    ) -> None:
        self._store = store
        self._now = now
        self._admin_timeout_s = admin_timeout_s
        self._replica_timeout_s = replica_timeout_s
        self._kept = KeptWrites(now=now)

    async def find(self, key_id: str, *, deadline: float | None = None) -> Lineage | None:
        reply = await _answer(self._store.script(FIND, keys=(RECORDS,), args=(key_id,), deadline=deadline))
        return None if reply is None else lineage_of(*reply)

    async def get(self, ref: Ref[R]) -> R | None:
        found = await self._read(ref)
        return None if found is None else found.record

    # --- changes

    async def add(self, record: R) -> Written[R]:
        """An addition is not made again after a failover: meanwhile another host may have deleted it."""
        check(record)
        family: list[Record] = [record, *parents_of(record)]
        reply = await self._script(
            ADD,
            keys=(RECORDS, *(name for each in family for name in lists_of(each))),
            args=[
                value
                for each in family
                for value in (field_of(ref_of(each)), encoded(each), member_of(each), len(lists_of(each)))
            ],
        )
        if reply[0] == b"there":
            raise AlreadyThere(f"There is a {ref_of(record)} already.")
        self._kept.forget(ref_of(record))
        return Written(record, await self._is_replicated(reply[1]))

    async def change(self, ref: Ref[R], change: Callable[[R], R]) -> Written[R]:
        before, after, replicas = await self._exchange(ref, change)
        self._kept.add(ref, before, after)
        return Written(after, await self._is_replicated(replicas))

    async def delete(self, ref: Ref[R]) -> Written[R]:
        record = await self.get(ref)
        if record is None:
            raise NoSuchRecord(f"There is no {ref}.")
        dependents, first, last = dependents_of(ref)
        reply = await self._script(
            DELETE,
            keys=(RECORDS, dependents, LAST_USED, *lists_of(record)),
            args=(field_of(ref), member_of(record), first, last),
        )
        if reply[0] == b"used":
            raise StillInUse(f"The {ref} still has {'services' if isinstance(ref, TenantRef) else 'keys'}.")
        if reply[0] == b"absent":
            raise NoSuchRecord(f"There is no {ref}.")
        self._kept.add(ref, record, None)
        return Written(record, await self._is_replicated(reply[1]))

    async def note_use(self, used_at_s: Mapping[str, float]) -> None:
        pairs = [(field_of(KeyRef(key_id)), round(moment)) for key_id, moment in used_at_s.items()]
        for start in range(0, len(pairs), _CHUNK):
            args = [value for pair in pairs[start : start + _CHUNK] for value in pair]
            await self._script(NOTE_USE, keys=(RECORDS, LAST_USED), args=args)

    # --- after a failover

    async def reapply(self) -> Sequence[Ref[Any]]:
        """Make again what this process took away within the last ten minutes and the store has lost; of which
        records that was. To be called when the store is another one than before."""
        return [ref for ref, states in self._kept.recent() if await self._is_made_again(ref, states)]

    async def _is_made_again(self, ref: Ref[Any], states: Sequence[Record | None]) -> bool:
        current = await self.get(ref)
        replaced = [state for state in states[:-1] if state is not None]
        if current is None:
            return False
        try:
            if states[-1] is None:
                if encoded(current) not in map(encoded, replaced):
                    return False
                await self.delete(ref)
                return True
            strict = partial(tightened, states[-1], replaced)
            if strict(current) == current:
                return False
            await self._exchange(ref, strict)
        except (NoSuchRecord, StillInUse):  # others have changed it meanwhile, and theirs holds
            return False
        return True

    # --- lists

    async def tenants(
        self, *, limit: int = 100, after: str | None = None, where: Callable[[Tenant], bool] | None = None
    ) -> Page[Tenant]:
        start = "-" if after is None else f"({after}"
        return await read_page(
            self._asking(), Tenant, TENANTS, start=start, stop="+", limit=limit, where=where
        )

    async def services(
        self,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: str | None = None,
        where: Callable[[Service], bool] | None = None,
    ) -> Page[Service]:
        start, stop = ("-", "+") if tenant is None else services_range(tenant)
        if after is not None:
            start = max(start, f"({after}", key=lambda edge: edge[1:])
        return await read_page(
            self._asking(), Service, SERVICES, start=start, stop=stop, limit=limit, where=where
        )

    async def keys(
        self,
        *,
        tenant: str | None = None,
        service: str | None = None,
        limit: int = 100,
        after: str | None = None,
        where: Callable[[KeyRecord], bool] | None = None,
    ) -> Page[KeyRecord]:
        if service is not None and tenant is None:
            raise ValueError("A service needs its tenant named.")
        start = "+" if after is None else f"({after}"
        return await read_page(
            self._asking(),
            KeyRecord,
            keys_of(tenant, service),
            start=start,
            stop="-",
            limit=limit,
            where=where,
        )

    # --- asking the store

    async def _read(self, ref: Ref[R]) -> _Found[R] | None:
        ask, field = self._asking(), field_of(ref)
        stored, used = await asyncio.gather(ask("HGET", RECORDS, field), ask("HGET", LAST_USED, field))
        return _Found.of(ref, stored, used)

    async def _exchange(self, ref: Ref[R], change: Callable[[R], R]) -> tuple[R, R, int]:
        """The record before and after, and how many replicas there are."""
        found = await self._read(ref)
        for _ in range(_RACES):
            if found is None:
                raise NoSuchRecord(f"There is no {ref}.")
            after = change(found.record)
            check(after)
            if _whereabouts(after) != _whereabouts(found.record):
                raise ValueError(f"The {ref} cannot become another one: delete it and add the other.")
            reply = await self._script(
                CHANGE, keys=(RECORDS,), args=(field_of(ref), found.stored, encoded(after))
            )
            if reply[0] == b"ok":
                return found.record, after, reply[1]
            found = _Found.of(ref, reply[1], found.last_used)
        raise KeysUnavailable(f"The {ref} is being changed by others all the time. Try again.")

    async def _is_replicated(self, replicas: int) -> bool:
        if replicas == 0:
            return True
        try:
            timeout_ms = round(self._replica_timeout_s * 1000)
            return await self._store.wait_replicas(1, timeout_ms, like_key=RECORDS) >= 1
        except (OSError, RedisError):  # the change is made; that it is safe is what nobody can say
            return False

    def _asking(self) -> Callable[..., Awaitable[Any]]:
        """Sends commands which all have one deadline."""
        deadline = self._now() + self._admin_timeout_s
        return lambda *command: _answer(self._store.execute(*command, deadline=deadline))

    async def _script(self, source: str, *, keys: Sequence[Argument], args: Sequence[Argument]) -> Any:
        deadline = self._now() + self._admin_timeout_s
        return await _answer(self._store.script(source, keys=keys, args=args, deadline=deadline))


@dataclass(frozen=True, slots=True)
class _Found(Generic[R]):
    """A record with the bytes it was read from, by which a change recognises that it is still the same."""

    record: R
    stored: bytes
    last_used: bytes | None

    @classmethod
    def of(cls, ref: Ref[R], stored: bytes | None, last_used: bytes | None) -> _Found[R] | None:
        if stored is None:
            return None
        return cls(decoded(kind_of(ref), stored, last_used), stored, last_used)


def _whereabouts(record: Record) -> tuple[object, ...]:
    return type(record), lists_of(record), member_of(record)


async def _answer(reply: Awaitable[Any]) -> Any:
    try:
        return await reply
    except (OSError, RedisError) as error:
        raise KeysUnavailable(f"The store of keys cannot answer ({type(error).__name__}).") from error
