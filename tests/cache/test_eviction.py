"""A cache store that lets keys go as it likes: nothing fails, nothing wrong is answered, and the index follows."""

from __future__ import annotations

import asyncio
from collections import Counter

from cache import (
    Answer,
    EmbedQueue,
    Hit,
    Miss,
    Question,
    RedisEntries,
    Rules,
    SemanticCache,
    Spaces,
    Unaudited,
)
from cache.testing import HashEmbedder
from tests.cache.parts import SECRET, part, real_store, soon

LIMIT = 64 << 20
PAYLOAD = bytes(100_000)
ENTRIES = 3 * LIMIT // len(PAYLOAD)
NAMESPACES = [f"tenant-{number}/default/m" for number in range(8)]


def question(number: int, *, is_reworded: bool = False) -> Question:
    words = ["tell", "me", "all", "of", "topic", f"x{number}x"]
    namespace = NAMESPACES[number % len(NAMESPACES)]
    return Question(part(namespace), " ".join(reversed(words) if is_reworded else words))


def answer(number: int) -> Answer:
    return Answer(f"all of {number}", PAYLOAD)


async def test_a_store_filled_three_times_over_gives_no_error_and_no_wrong_answer() -> None:
    embed = EmbedQueue(HashEmbedder())
    async with real_store() as (_, store):
        await store.execute("CONFIG", "SET", "appendonly", "no")  # it is not the disk that is tried
        await store.execute("CONFIG", "SET", "maxmemory", LIMIT)
        await store.execute("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        spaces = Spaces()
        entries = RedisEntries(store, secret=SECRET)
        cache = SemanticCache(
            entries,
            embed,
            spaces,
            Unaudited(Rules("fixed", 0.99)),
            secret=SECRET,
            ttl_s=3600.0,
            semantic_deadline_s=5.0,
        )
        outcomes: Counter[str] = Counter()

        async def ask(number: int, *, is_reworded: bool = False) -> Hit | Miss:
            asked = question(number, is_reworded=is_reworded)
            found = await cache.begin(asked, deadline=soon()).result()
            if isinstance(found, Hit):
                assert found.entry.answer.text == answer(number).text
            return found

        async def teach(number: int) -> None:
            found = await ask(number)
            if isinstance(found, Miss):
                assert found.ticket is not None
                outcomes[(await cache.store(found.ticket, answer(number))).reason] += 1

        for start in range(0, ENTRIES, 20):
            await asyncio.gather(*(teach(number) for number in range(start, start + 20)))
            await ask(start // 2)
            await ask(start // 3, is_reworded=True)

        memory = dict(
            line.split(b":") for line in (await store.execute("INFO", "memory")).splitlines() if b":" in line
        )
        assert int(memory[b"used_memory"]) - int(memory[b"mem_not_counted_for_evict"]) < 1.1 * LIMIT
        assert set(outcomes) <= {"stored", "invalidated"}
        assert outcomes["stored"] > 0.95 * ENTRIES

        await store.execute("CONFIG", "SET", "maxmemory", 0)  # from here on nothing else goes
        hits = [isinstance(await ask(number, is_reworded=True), Hit) for number in range(ENTRIES)]
        there = len(await store.execute("KEYS", "*:e:*"))
        assert 0.5 < there * len(PAYLOAD) / LIMIT < 1
        assert sum(hits) <= there
        assert len(spaces) <= there + ENTRIES // 100
    embed.close()
