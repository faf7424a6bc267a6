"""Short ways to build pools over scripted servers and to ask them."""

from __future__ import annotations

import json
import random
import time
from typing import Any

from backends import Backend, Event, Exchange, Member, Pools, Timeouts, UpstreamRequest, VllmBackend
from tests.scripted import ScriptedUpstream

PATH = "/v1/chat/completions"
QUICK = Timeouts(connect_s=1.0, first_byte_s=2.0, idle_s=2.0)


def request(*, stream: bool = False, **fields: Any) -> UpstreamRequest:
    def body(member: Member) -> bytes:
        return json.dumps(
            {"model": member.upstream_model, "messages": [], "stream": stream, **fields}
        ).encode()

    return UpstreamRequest(PATH, body, lambda number: {"x-request-id": f"r-{number}"}, is_stream=stream)


def member(name: str, upstream: ScriptedUpstream, **fields: Any) -> Member:
    return Member(name, upstream.base_url, **{"upstream_model": "m", "revision": "1", **fields})


def pools(
    *members: Member, backend: Backend | None = None, timeouts: Timeouts = QUICK, seed: int = 0, **more: Any
) -> Pools:
    """One pool, of the model "m", choosing the same way every time."""
    rng = random.Random(seed)
    return Pools({"m": members}, backend=backend or VllmBackend(), timeouts=timeouts, rng=rng, **more)


async def ask(asked: Pools, *, stream: bool = False, within_s: float = 10.0, model: str = "m") -> Exchange:
    return await asked.open(
        asked.resolve(model), request(stream=stream), deadline_s=time.monotonic() + within_s
    )


async def answer(asked: Pools, **how: Any) -> Any:
    """The parsed JSON body."""
    async with await ask(asked, **how) as exchange:
        return json.loads(await exchange.read(1 << 20))


async def events(exchange: Exchange) -> list[Event]:
    """All events, closing the exchange."""
    async with exchange:
        return [event async for batch in exchange.batches() for event in batch]


async def texts(exchange: Exchange) -> list[str]:
    """The contents of a stream's deltas."""
    chunks = [json.loads(event.data) for event in await events(exchange) if event.data != b"[DONE]"]
    return [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
