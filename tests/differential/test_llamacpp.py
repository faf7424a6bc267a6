"""A real llama.cpp asked directly and through the gateway: whatever differs in what it says is listed here.

Two hundred requests more, with answers of every kind, are compared byte for byte with a scripted server:
`tests/gateway/test_differential.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from gateway.settings.reading import Settings
from tests.backends.llama import ALIAS, Llama, running_llama
from tests.running import RunningGateway, running_gateway

from .corpus import Asked, corpus

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

# Made for each answer, or of the moment: what the server has read before is counted apart. Of an error the code is a
# text here, and its type OpenAI's.
FRESH = {"id", "created", "created_at", "completed_at", "item_id", "timings"}
FRESH |= {"cache_read_input_tokens", "input_tokens", "cached_tokens"}
OWN_HEADERS = {
    *(
        "x-request-id",
        "x-echogate-request-id",
        "x-trace-id",
        "x-cache",
        "x-cache-reason",
        "x-cache-id",
        "age",
    ),
    *("x-echogate-backend", "server-timing", "openai-processing-ms", "x-should-retry", "x-cache-similarity"),
    *("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    *("cache-control", "x-accel-buffering", "date"),
    *("content-encoding", "vary"),  # long replies are compressed for who asks for it
}
SERVERS_HEADERS = {"server", "keep-alive", "access-control-allow-origin"}
FRAMING = {"content-length", "transfer-encoding", "content-type", "connection"}


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    pytest.importorskip("xllamacpp", reason="llama.cpp needs the xllamacpp wheel, which this platform lacks")
    with running_llama(context=8192) as server:
        yield server


async def test_llamacpp_says_the_same_directly_and_through_the_gateway(llama: Llama) -> None:
    pools = {ALIAS: [{"url": llama.base_url, "name": "one", "model": ALIAS, "revision": "r1"}]}
    settings = Settings(pools=pools, store={"deadline_ms": 5000}, cache={"embedder": {"kind": "none"}})
    hits, found = 0, []
    async with running_gateway(settings=settings) as gateway:
        for number, asked in enumerate(corpus(ALIAS)):
            mode = {"x-cache-mode": "off"} if number % 4 == 0 else {}
            direct = await ask(gateway, llama.base_url, asked, {})
            through = await ask(gateway, gateway.base_url, asked, mode)
            found += [(asked, each) for each in differences(direct, through)]
            if not mode:
                hits += await _is_hit(gateway, asked, direct)
    assert not found, "\n".join(f"{asked}: {each}" for asked, each in found)
    assert hits >= 5


async def _is_hit(gateway: RunningGateway, asked: Asked, direct: httpx.Response) -> bool:
    """What was kept is the same to who asks again: JSON member by member, a stream in what it adds up to."""
    await gateway.idle()
    again = await ask(gateway, gateway.base_url, asked, {"cache-control": "only-if-cached"})
    if not again.headers.get("x-cache", "").startswith("HIT"):
        return False
    if "stream" not in again.headers["content-type"]:
        assert differences(direct, again) == [], asked
    else:
        assert told(again) == told(direct), asked
    return True


async def ask(
    gateway: RunningGateway, base_url: str, asked: Asked, headers: dict[str, str]
) -> httpx.Response:
    key = {"authorization": f"Bearer {gateway.key}"}
    return await gateway.client.post(
        base_url + asked.path, json=asked.body, headers=key | headers, timeout=60
    )


def differences(direct: httpx.Response, through: httpx.Response) -> list[str]:
    found = []
    if direct.status_code != through.status_code:
        found.append(f"status {direct.status_code} and {through.status_code}: {direct.text} {through.text}")
    mine, theirs = (set(reply.headers) - FRAMING for reply in (through, direct))
    if unexpected := (mine - theirs - OWN_HEADERS) | (theirs - mine - SERVERS_HEADERS):
        found.append(f"headers {unexpected}")
    if kind(direct) != kind(through):
        found.append(f"{kind(direct)} and {kind(through)}")
    one, other = said(direct), said(through)
    if one != other:
        found.append(f"{one} and {other}")
    if '"include_usage":true' in direct.request.content.decode() and usage(direct) != usage(through):
        found.append(f"usage {usage(direct)} and {usage(through)}")
    return found


def kind(reply: httpx.Response) -> str:
    return reply.headers["content-type"].partition(";")[0]


def said(reply: httpx.Response) -> Any:
    """Its JSON, or its events in their order, without what is fresh.

    Usage in a stream is apart: here it has a chunk of its own for who asked for it, wherever the server puts it.
    """
    if kind(reply) != "text/event-stream":
        return _lasting(reply.json())
    told = [_lasting_event(block) for block in reply.text.split("\n\n") if block.strip()]
    chunks = [event for event in told if not (isinstance(event[-1], dict) and event[-1].get("choices") == [])]
    return [[*names, _without_usage(data)] for *names, data in chunks]


def usage(reply: httpx.Response) -> Any:
    found = [event for event in reply.text.split("\n\n") if '"usage":{' in event]
    return [_lasting(json.loads(event.removeprefix("data: "))["usage"]) for event in found]


def _without_usage(data: Any) -> Any:
    is_chunk = isinstance(data, dict) and "choices" in data
    return {name: value for name, value in data.items() if name != "usage"} if is_chunk else data


def told(reply: httpx.Response) -> str:
    """All texts of a stream, in their order."""
    texts = []
    for block in said(reply):
        data = block[-1]
        if isinstance(data, dict):
            texts += [
                (choice.get("delta") or {}).get("content") or choice.get("text") or ""
                for choice in data.get("choices", ())
            ]
            texts.append(data["delta"] if isinstance(data.get("delta"), str) else "")
    return "".join(texts)


def _lasting_event(block: str) -> list[Any]:
    """Its name, if it has one, and its data."""
    lines = [line.partition(": ")[2] for line in block.splitlines()]
    return [*lines[:-1], lines[-1] if lines[-1] == "[DONE]" else _lasting(json.loads(lines[-1]))]


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(value.get("error"), dict):
            return {"error": value["error"]["message"]}
        return {name: _lasting(each) for name, each in value.items() if name not in FRESH}
    return [_lasting(each) for each in value] if isinstance(value, list) else value
