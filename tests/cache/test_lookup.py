"""A look-up while the same answer is being stored by another."""

from __future__ import annotations

from cache import EmbedQueue, Hit, Miss, Rules, SemanticCache, Spaces, Unaudited
from cache.testing import HashEmbedder, MemoryEntries
from tests.cache.parts import ANSWER, SECRET, asked, soon

TEXT = "how do i reset my password"


async def test_an_entry_stored_since_the_exact_tier_was_asked_is_an_exact_hit_however_it_is_found() -> None:
    queue = EmbedQueue(HashEmbedder())
    cache = SemanticCache(MemoryEntries(), queue, Spaces(), Unaudited(Rules()), secret=SECRET, ttl_s=60.0)
    try:
        first = await cache.begin(asked(TEXT), deadline=soon()).result()
        second = cache.begin(asked(TEXT), deadline=soon())  # has asked for the entry by now
        assert isinstance(first, Miss)
        assert first.ticket is not None
        assert (await cache.store(first.ticket, ANSWER)).is_stored
        hit = await second.result()
    finally:
        queue.close()
    assert isinstance(hit, Hit)
    assert (hit.tier, hit.similarity, hit.verdict) == ("exact", 1.0, None)
