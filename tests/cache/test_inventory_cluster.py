"""On a real cluster, where owners lie on different servers: all is found, kept within quotas and removed."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from msgspec.structs import replace

from cache import Answer, Inventory, NoEmbedder, Quota, RedisEntries, Selector
from cache.identity import SHARDS, Keys, space, tag
from gateway.store.client import StoreClient
from tests.cache.parts import SECRET, Clock, asked, entry_for, part, soon, ticket_for
from tests.clusters import running_cluster
from tests.valkey import eventually

pytestmark = pytest.mark.full

OWNERS = [f"tenant-{number}/default/m" for number in range(24)]


async def test_entries_of_all_owners_are_found_and_removed_wherever_they_lie() -> None:
    with running_cluster() as cluster:
        async with StoreClient.open(cluster.url, deadline_s=2) as store:
            await eventually(lambda: store.is_up)
            clock = Clock()
            entries = RedisEntries(store, secret=SECRET, wall=clock, quota_of=lambda _: Quota(most_entries=3))
            inventory = Inventory(entries, NoEmbedder(), secret=SECRET, wall=clock)

            async def put(namespace: str, text: str, user: str) -> str:
                question = asked(text, of=part(namespace))
                ticket = replace(
                    ticket_for(question, await entries.epoch(namespace, deadline=soon())),
                    vector=np.eye(4, dtype=np.float32)[0],
                    space=space(SECRET, question.partition, "f"),
                )
                answer = Answer("text", b"payload", tags={"user": tag(SECRET, "user", user)})
                entry = entry_for(question, at_s=clock(), answer=answer)
                return await entries.put(ticket, entry, deadline=soon())

            for owner in OWNERS:
                outcomes = [await put(owner, f"question {n}", f"user-{n}") for n in range(4)]
                assert outcomes == ["stored"] * 4
            assert len({cluster.holding(Keys(SECRET, owner).epoch)[0] for owner in OWNERS}) == 3

            listed = [each async for page in inventory.headers(Selector()) for each in page]
            assert len({each.entry_id for each in listed}) == 3 * len(OWNERS)
            vectors = [
                each for shard in range(SHARDS) async for page in entries.scan_vectors(shard) for each in page
            ]
            assert {each.entry_id for each in vectors} == {each.entry_id for each in listed}

            done = await inventory.invalidate(Selector(tags={"user": "user-3"}), dry_run=False)
            assert (done.removed, done.shards) == (len(OWNERS), SHARDS)
            left = await asyncio.gather(
                *(inventory.invalidate(Selector(namespace=owner)) for owner in OWNERS)
            )
            assert [each.found for each in left] == [2] * len(OWNERS)
