"""A directory and limits in memory, for tests of whoever uses auth. They keep what the interfaces promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from .errors import AlreadyThere, KeysUnavailable, NoSuchRecord, StillInUse
from .identity.records import SERVICES, TENANTS, keys_of, lists_of, member_of, parents_of, ref_of
from .identity.rules import check
from .limits.memory import MemoryLimits
from .model import (
    KeyRecord,
    KeyRef,
    Lineage,
    Page,
    R,
    Record,
    Ref,
    Service,
    ServiceRef,
    Tenant,
    TenantRef,
    Written,
)

__all__ = ["MemoryDirectory", "MemoryLimits"]


class MemoryDirectory:
    """A `Directory`. While `is_down`, every call raises `KeysUnavailable`; `finds` counts the look-ups, and
    `used_at_s` is when keys were last used."""

    def __init__(self) -> None:
        self.is_down = False
        self.finds = 0
        self._records: dict[Ref[Any], Record] = {}
        self.used_at_s: dict[str, float] = {}

    async def find(self, key_id: str, *, deadline: float | None = None) -> Lineage | None:
        self.finds += 1
        await self._answer()
        key = self._records.get(KeyRef(key_id))
        if not isinstance(key, KeyRecord):
            return None
        service = self._records[ServiceRef(key.tenant, key.service)]
        tenant = self._records[TenantRef(key.tenant)]
        assert isinstance(service, Service)
        assert isinstance(tenant, Tenant)
        return Lineage(key, service, tenant)

    async def get(self, ref: Ref[R]) -> R | None:
        await self._answer()
        return cast(R | None, self._dressed(self._records.get(ref)))

    async def add(self, record: R) -> Written[R]:
        await self._answer()
        check(record)
        if ref_of(record) in self._records:
            raise AlreadyThere(f"There is a {ref_of(record)} already.")
        for each in (record, *parents_of(record)):
            self._records.setdefault(ref_of(each), each)
        return Written(record, is_replicated=True)

    async def change(self, ref: Ref[R], change: Callable[[R], R]) -> Written[R]:
        await self._answer()
        before = self._present(ref)
        after = change(before)
        check(after)
        if (lists_of(after), member_of(after)) != (lists_of(before), member_of(before)):
            raise ValueError(f"The {ref} cannot become another one: delete it and add the other.")
        self._records[ref] = after
        return Written(after, is_replicated=True)

    async def delete(self, ref: Ref[R]) -> Written[R]:
        await self._answer()
        record = self._present(ref)
        if any(ref in map(ref_of, parents_of(each)) for each in self._records.values()):
            raise StillInUse(f"The {ref} still has {'services' if isinstance(ref, TenantRef) else 'keys'}.")
        del self._records[ref]
        if isinstance(record, KeyRecord):
            self.used_at_s.pop(record.key_id, None)
        return Written(record, is_replicated=True)

    async def tenants(
        self, *, limit: int = 100, after: str | None = None, where: Callable[[Tenant], bool] | None = None
    ) -> Page[Tenant]:
        return await self._page(Tenant, TENANTS, limit=limit, after=after, where=where)

    async def services(
        self,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: str | None = None,
        where: Callable[[Service], bool] | None = None,
    ) -> Page[Service]:
        def is_wanted(service: Service) -> bool:
            return tenant in (None, service.tenant) and (where is None or where(service))

        return await self._page(Service, SERVICES, limit=limit, after=after, where=is_wanted)

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
        return await self._page(KeyRecord, keys_of(tenant, service), limit=limit, after=after, where=where)

    async def note_use(self, used_at_s: Mapping[str, float]) -> None:
        await self._answer()
        for key_id, moment in used_at_s.items():
            is_due = moment >= self.used_at_s.get(key_id, 0.0) + 60
            if is_due and KeyRef(key_id) in self._records:
                self.used_at_s[key_id] = float(round(moment))

    async def _page(
        self,
        kind: type[R],
        name: str,
        *,
        limit: int,
        after: str | None,
        where: Callable[[R], bool] | None,
    ) -> Page[R]:
        await self._answer()
        is_backwards = kind is KeyRecord
        found = [
            record
            for record in map(self._dressed, self._records.values())
            if isinstance(record, kind)
            and name in lists_of(record)
            and (after is None or (member_of(record) < after if is_backwards else member_of(record) > after))
            and (where is None or where(record))
        ]
        found.sort(key=member_of, reverse=is_backwards)
        page = found[:limit]
        return Page(tuple(page), member_of(page[-1]) if len(found) > limit else None)

    def _present(self, ref: Ref[R]) -> R:
        record = self._dressed(self._records.get(ref))
        if record is None:
            raise NoSuchRecord(f"There is no {ref}.")
        return cast(R, record)

    def _dressed(self, record: Record | None) -> Record | None:
        if isinstance(record, KeyRecord):
            return replace(record, last_used_at_s=self.used_at_s.get(record.key_id))
        return record

    async def _answer(self) -> None:
        await asyncio.sleep(0)  # a real store never answers in the same turn of the loop
        if self.is_down:
            raise KeysUnavailable("The store of keys is down.")
