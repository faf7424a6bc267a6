"""A real store with entries in it, put there in a line each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from cache import Answer, EmbedQueue, Entry, Inventory, Question, RedisEntries
from cache.identity import entry_id, space, tag
from cache.interfaces import Outcome
from cache.testing import HashEmbedder
from gateway.store.client import StoreClient
from tests.cache.parts import ANSWER, SECRET, Clock, asked, entry_for, part, real_store, soon, ticket_for

NAMESPACE = "acme/default/m"
EMBEDDER = HashEmbedder()


@dataclass
class Kept:
    store: StoreClient
    entries: RedisEntries
    inventory: Inventory
    embed: EmbedQueue
    clock: Clock

    async def put(
        self,
        text: str,
        *,
        namespace: str = NAMESPACE,
        answer: Answer = ANSWER,
        tags: Mapping[str, str] | None = None,
        ttl_s: float = 60.0,
        epoch: bytes | None = None,
        is_similar: bool = True,
    ) -> Outcome:
        question = asked(text, of=part(namespace))
        ticket = ticket_for(question, epoch or await self.entries.epoch(namespace, deadline=soon()))
        if is_similar:
            ticket = replace(
                ticket,
                vector=EMBEDDER.embed(text),
                space=space(SECRET, question.partition, EMBEDDER.fingerprint),
            )
        named = {name: tag(SECRET, name, value) for name, value in (tags or {}).items()}
        entry = entry_for(
            question, at_s=self.clock(), ttl_s=ttl_s, answer=replace(answer, tags=named or answer.tags)
        )
        return await self.entries.put(ticket, entry, deadline=soon())

    async def find(self, text: str, *, namespace: str = NAMESPACE) -> Entry | None:
        question = asked(text, of=part(namespace))
        found = await self.entries.find(question, self.id_of(text, namespace=namespace), deadline=soon())
        return found.entry

    async def has(self, text: str, *, namespace: str = NAMESPACE) -> bool:
        return await self.find(text, namespace=namespace) is not None

    @staticmethod
    def id_of(text: str, *, namespace: str = NAMESPACE) -> int:
        return entry_id(SECRET, part(namespace), text)

    @staticmethod
    def question(text: str, *, namespace: str = NAMESPACE) -> Question:
        return asked(text, of=part(namespace))


@asynccontextmanager
async def kept(**options: Any) -> AsyncIterator[Kept]:
    """`options` are those of `RedisEntries`."""
    clock = Clock()
    embed = EmbedQueue(EMBEDDER)
    try:
        async with real_store() as (_, store):
            entries = RedisEntries(store, secret=SECRET, wall=clock, **options)
            inventory = Inventory(entries, embed, secret=SECRET, wall=clock)
            yield Kept(store, entries, inventory, embed, clock)
    finally:
        embed.close()
