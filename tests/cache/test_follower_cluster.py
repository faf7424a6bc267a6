"""On a real cluster, where the streams of changes lie on different servers: all are followed, and made good alone."""

from __future__ import annotations

import pytest

from cache.entries.next_vectors import NextVectors
from cache.identity import SHARDS, Keys, changes_key
from cache.replica.reembedding import Reembedding
from cache.testing import HashEmbedder
from tests.cache.parts import SECRET
from tests.cache.workers import SIMILAR, TEXT, worker
from tests.clusters import running_cluster
from tests.valkey import eventually

pytestmark = pytest.mark.full

OWNERS = [f"tenant-{number}" for number in range(12)]


async def test_streams_of_all_servers_are_followed_and_a_shard_that_fell_behind_is_made_anew_alone() -> None:
    with running_cluster() as cluster:
        async with worker(cluster, deadline_s=5.0) as one, worker(cluster, deadline_s=5.0) as other:
            assert len({cluster.holding(Keys(SECRET, owner).epoch)[0] for owner in OWNERS}) == 3
            for owner in OWNERS:
                await one.teach(TEXT, namespace=owner)
            await eventually(lambda: len(other.ids) == len(OWNERS), within_s=20)
            assert all([await other.finds(SIMILAR, namespace=owner) for owner in OWNERS])

            await other.unfollow()
            for number in range(20):
                await one.teach(f"number {number} of many", namespace=OWNERS[0])
            await one.store.execute("XTRIM", changes_key(Keys(SECRET, OWNERS[0]).shard), "MAXLEN", 5)
            other.follow()
            await eventually(lambda: other.follower.rebuilds == {"start": SHARDS, "behind": 1}, within_s=20)
            assert len(other.ids) == len(OWNERS) + 20

            new = HashEmbedder(dimension=32)
            async with worker(cluster, embedder=new, deadline_s=5.0) as following:
                vectors = NextVectors(
                    following.store, following.entries, secret=SECRET, fingerprint=new.fingerprint
                )
                work = Reembedding(
                    following.store,
                    vectors,
                    following.queue,
                    secret=SECRET,
                    is_serving=True,
                    pending=lambda: 1,
                    share=1.0,
                )
                assert await work.all()
                assert (work.progress.done, work.progress.settled) == (len(OWNERS) + 20, len(OWNERS) + 20)
                await eventually(lambda: len(following.ids) == len(OWNERS) + 20, within_s=20)
                assert await following.finds(SIMILAR, namespace=OWNERS[-1])
