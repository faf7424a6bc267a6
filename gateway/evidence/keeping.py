"""Decides how answers are kept in the store of the role `cache`: sealed or not, and how much of each tenant's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from cache import (
    AesGcmSeal,
    EmbedQueue,
    Inventory,
    NoEmbedder,
    Quota,
    RedisEntries,
    Seal,
    Transfer,
    Unsealed,
)

from ..settings.cache import QuotaSettings
from ..settings.reading import Settings, read_encrypt_keys
from ..store.client import StoreClient
from ..telemetry import metrics_table as table


def open_entries(settings: Settings, store: StoreClient, *, secret: bytes) -> RedisEntries:
    """Raises SettingsError where a key is not where the settings say."""
    keys = read_encrypt_keys(settings.store.encrypt_keys)
    seal = AesGcmSeal(keys) if keys else Unsealed()
    return RedisEntries(store, secret=secret, seal=seal, quota_of=_quotas(settings))


@dataclass(frozen=True, slots=True)
class Keeping:
    """What admins look through the kept answers with."""

    inventory: Inventory
    transfer: Transfer
    seal: Seal
    quota_of: Callable[[str], Quota]


def keeping_of(
    entries: RedisEntries, embed: EmbedQueue | NoEmbedder, settings: Settings, *, secret: bytes
) -> Keeping:
    inventory = Inventory(entries, embed, secret=secret)
    transfer = Transfer(
        entries,
        embed,
        secret=secret,
        most_ttl_s=settings.cache.ttl_s,
        max_entry_bytes=settings.cache.max_entry_kib << 10,
    )
    return Keeping(inventory, transfer, entries.seal, _quotas(settings))


def _quotas(settings: Settings) -> Callable[[str], Quota]:
    usual = _quota(settings.cache.quota)
    own = {tenant: _quota(quota) for tenant, quota in settings.cache.quotas.items()}
    return lambda owner: own.get(owner, usual)


def _quota(settings: QuotaSettings) -> Quota:
    return Quota(most_bytes=settings.mib << 20, most_entries=settings.entries)


class SealMetrics(Collector):
    """Read whenever the registry's numbers are."""

    def __init__(self, seal: Seal, registry: CollectorRegistry) -> None:
        self._seal = seal
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        refused = CounterMetricFamily(table.SEAL_REFUSED.name, table.SEAL_REFUSED.meaning)
        refused.add_metric([], self._seal.refused)
        return [refused]
