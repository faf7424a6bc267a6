"""Embeddings and what is handed on are traced and counted like answers: each hop a span, each token once."""

from __future__ import annotations

import httpx
import pytest

from gateway.telemetry.metrics_merge import render
from tests.collector import attributes, collecting
from tests.gateway.test_embeddings import embed
from tests.gateway.test_passthrough import RERANK
from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream

EMBED = "POST /v1/embeddings"
STORED = {"auth.authenticate": EMBED, "auth.limit": EMBED, "cache.lookup": EMBED}
ASKED = STORED | {"backend.route": EMBED, "embeddings m1": EMBED, "cache.store": EMBED}


async def post(gateway: RunningGateway, path: str, **body: object) -> httpx.Response:
    headers = {"authorization": f"Bearer {gateway.key}"}
    reply = await gateway.client.post(path, json={"model": "m1"} | body, headers=headers)
    await gateway.idle()
    return reply


async def test_a_batch_has_a_span_for_each_hop_and_says_what_was_asked_and_what_was_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
        upstream.handler = embed
        async with running_gateway(upstream) as gateway:
            some = await post(gateway, "/v1/embeddings", input=["a", "b"])
            mixed = await post(gateway, "/v1/embeddings", input=["a", "c", "b"])
            stored = await post(gateway, "/v1/embeddings", input=["a", "c"])
        traces = [
            await collector.trace(reply.headers["x-trace-id"], spans=count)
            for reply, count in ((some, 7), (mixed, 7), (stored, 4))
        ]
    assert [trace.tree() for trace in traces] == [{EMBED: ""} | tree for tree in (ASKED, ASKED, STORED)]
    call = attributes(traces[1]["embeddings m1"])
    assert call["gen_ai.operation.name"] == "embeddings"
    assert (call["gen_ai.usage.input_tokens"], call["gen_ai.usage.output_tokens"]) == (10, 0)
    looked = attributes(traces[1]["cache.lookup"])
    assert (looked["echogate.cache.inputs"], looked["echogate.cache.hits"]) == (3, 2)
    assert attributes(traces[1]["cache.store"])["echogate.cache.stored"] is True
    assert [attributes(trace.root)["gen_ai.usage.input_tokens"] for trace in traces] == [20, 10, 20]
    assert attributes(traces[2].root)["echogate.cache.outcome"] == "HIT-EXACT"


async def test_what_is_handed_on_has_a_client_span_of_its_name_and_no_tokens_that_nobody_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
        upstream.reply(b'{"results": []}')
        upstream.reply(b'{"results": [], "usage": {"total_tokens": 9}}')
        async with running_gateway(upstream) as gateway:
            replies = [await post(gateway, "/v1/rerank", **RERANK) for _ in range(2)]
        traces = [await collector.trace(reply.headers["x-trace-id"], spans=5) for reply in replies]
    plain, counted = [attributes(trace["rerank m1"]) for trace in traces]
    assert plain["gen_ai.operation.name"] == "rerank"
    assert "gen_ai.usage.input_tokens" not in plain
    assert (counted["gen_ai.usage.input_tokens"], counted["gen_ai.usage.output_tokens"]) == (9, 0)
    upstream_parent = upstream.calls[0].headers["traceparent"].split("-")[2]
    assert upstream_parent == traces[0]["rerank m1"].span_id.hex()


async def test_tokens_are_counted_once_for_the_server_and_once_for_the_cache() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        await post(gateway, "/v1/embeddings", input=["a", "b"])
        await post(gateway, "/v1/embeddings", input=["a", "c"])
        await post(gateway, "/v1/embeddings", input=["a", "c"])
        page = render(gateway.plane.metrics.snapshot(), as_openmetrics=False).decode()
    told = [line for line in page.splitlines() if line.startswith("echogate_tokens_total{")]
    for source, count in (("backend", 30), ("cache", 20)):
        (line,) = (one for one in told if '"input"' in one and f'"{source}"' in one)
        assert float(line.split()[-1]) == count
