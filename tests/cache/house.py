"""A whole cache on fakes, as most tests of it need it: taught and asked in a line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from cache import (
    Answer,
    EmbedQueue,
    Hit,
    Miss,
    NoEmbedder,
    Policy,
    Question,
    Rules,
    SemanticCache,
    Spaces,
    Unaudited,
)
from cache.model import Vector
from cache.testing import HashEmbedder, MemoryEntries
from tests.cache.parts import ANSWER, SECRET, Clock, asked, soon

TEXT = "how do i reset my password for the shop"
SIMILAR = "reset my password for the shop how do i do"  # nearly the same words


class Moody(HashEmbedder):
    """Raises what it was told to."""

    error: Exception | None = None

    def embed(self, text: str) -> Vector:
        if self.error is not None:
            raise self.error
        return super().embed(text)


@dataclass
class House:
    cache: SemanticCache
    entries: MemoryEntries
    embedder: Moody
    spaces: Spaces
    clock: Clock

    async def look_up(self, question: Question) -> Hit | Miss:
        return await self.cache.begin(question, deadline=soon()).result()

    async def ask(self, text: str, **changes: Any) -> Hit | Miss:
        return await self.look_up(replace(asked(text), **changes))

    async def teach(self, text: str, answer: Answer = ANSWER, **changes: Any) -> None:
        missed = await self.ask(text, **changes)
        assert isinstance(missed, Miss)
        assert missed.ticket is not None
        assert (await self.cache.store(missed.ticket, answer)).is_stored


def built(policy: Policy, embed: EmbedQueue | NoEmbedder, embedder: Moody) -> House:
    clock, evidence = Clock(), Unaudited(Rules(policy.name, policy.threshold))
    entries, spaces = MemoryEntries(secret=SECRET, wall=clock), Spaces(wall=clock)
    cache = SemanticCache(
        entries, embed, spaces, evidence, secret=SECRET, ttl_s=60.0, max_entry_bytes=4000, wall=clock
    )
    return House(cache, entries, embedder, spaces, clock)


def reason(outcome: Hit | Miss) -> str:
    assert isinstance(outcome, Miss), outcome
    return outcome.reason
