"""What most tests of the cache need: questions, answers, a clock, and a store client on a real Valkey."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from cache import Answer, Entry, Partition, Question, Ticket
from cache.identity import entry_id, partition
from gateway.store.client import StoreClient
from tests.valkey import Valkey, eventually, running_valkey

SECRET = b"a deployment's secret, for tests"
ANSWER = Answer("Paris", b'{"content": "Paris"}', {"model": "m"})


class HasUrl(Protocol):
    @property
    def url(self) -> str: ...


class Clock:
    """Wall-clock seconds that pass when told."""

    def __init__(self) -> None:
        self.at_s = time.time()

    def __call__(self) -> float:
        return self.at_s


def soon() -> float:
    return time.monotonic() + 2.0


def part(namespace: str = "team-a", material: bytes = b"model=m") -> Partition:
    return partition(SECRET, namespace, material)


def asked(text: str = "What is the capital of France?", *, of: Partition | None = None) -> Question:
    return Question(of or part(), text)


def ticket_for(question: Question, epoch: bytes | None) -> Ticket:
    return Ticket(question, entry_id(SECRET, question.partition, question.text), epoch)


def entry_for(question: Question, *, at_s: float, ttl_s: float = 60.0, answer: Answer = ANSWER) -> Entry:
    named = entry_id(SECRET, question.partition, question.text)
    return Entry(named, question.text, answer, at_s, at_s + ttl_s)


@asynccontextmanager
async def connected(
    server: HasUrl, *, silence_s: float = 1.0, deadline_s: float = 0.05
) -> AsyncIterator[StoreClient]:
    async with StoreClient.open(server.url, silence_s=silence_s, deadline_s=deadline_s) as client:
        await eventually(lambda: client.is_up)
        yield client


@asynccontextmanager
async def real_store() -> AsyncIterator[tuple[Valkey, StoreClient]]:
    async with running_valkey() as server, connected(server) as client:
        yield server, client
