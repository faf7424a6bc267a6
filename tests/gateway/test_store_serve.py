"""A whole `serve` on a cluster and behind sentinels: it starts, and refuses a store that may evict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clusters import SentinelGroup, ValkeyCluster, running_cluster, running_sentinels
from tests.gateway.serving import serving

pytestmark = pytest.mark.full

Group = ValkeyCluster | SentinelGroup
GROUPS: dict[str, Callable[[], Any]] = {"cluster": running_cluster, "sentinel": running_sentinels}


@pytest.fixture(scope="module", params=GROUPS)
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    with GROUPS[request.param]() as running:
        yield running


def test_it_serves_with_both_roles_there(group: Group) -> None:
    store = {"durable": group.url, "cache": group.url}
    with serving(store=store, workers=2) as running:
        assert set(running.facts_of_all(2)) <= set(running.children())
        assert running.stop() == 0


def test_a_master_that_may_evict_is_refused(group: Group) -> None:
    master = group.master() if isinstance(group, SentinelGroup) else group.masters()[-1]
    master.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        store = {"durable": group.url, "cache": group.url}
        with serving(store=store, is_ready=False) as running:
            assert running.process.wait(60) != 0
            assert "allkeys-lru" in running.log
    finally:
        master.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
