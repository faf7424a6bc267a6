"""Decides what a key may do in the end, from what is set on itself, its service and its tenant."""

from __future__ import annotations

from ..limits.model import LevelLimits
from ..model import UNLIMITED, KeyRecord, KeyWarning, Lineage, Principal, Record, Rights

WARN_S = 7 * 86_400.0


def principal_of(lineage: Lineage, *, rights: Rights, now_s: float) -> Principal:
    """The key's policy over its service's, over its tenant's, over `rights`; the limits of all three."""
    key, service, tenant = lineage.key, lineage.service, lineage.tenant
    rights = rights.under(tenant.policy).under(service.policy).under(key.policy)
    levels = (
        LevelLimits("key", key.key_id, key.limits),
        LevelLimits("service", service.name, service.limits),
        LevelLimits("tenant", tenant.name, tenant.limits),
    )
    return Principal(
        models=rights.models,
        scopes=rights.scopes,
        cache_scope=rights.cache_scope,
        cache_mode=rights.cache_mode,
        shared_pool=rights.shared_pool,
        priority=rights.priority,
        key_id=key.key_id,
        tenant=tenant.name,
        service=service.name,
        limits=tuple(level for level in levels if level.limits != UNLIMITED),
        warnings=_warnings(key, now_s),
    )


def disabled_level(lineage: Lineage) -> str | None:
    """Which of them is disabled, if any: the key, its service or its tenant."""
    records: dict[str, Record] = {
        "key": lineage.key,
        "key's service": lineage.service,
        "key's tenant": lineage.tenant,
    }
    return next((level for level, record in records.items() if record.disabled_at_s is not None), None)


def _warnings(key: KeyRecord, now_s: float) -> tuple[KeyWarning, ...]:
    ends_at_s = key.expires_at_s
    if ends_at_s is None or ends_at_s - now_s > WARN_S:
        return ()
    return (KeyWarning("expires-soon", ends_at_s),)
