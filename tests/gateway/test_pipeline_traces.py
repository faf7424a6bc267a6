"""One request, one trace: every span of its path, with the right parent, ended, and nothing of what was said in it."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.collector import Collector, Trace, attributes, collecting
from tests.running import events, running_gateway
from tests.scripted import CUT, ScriptedUpstream, delta
from tests.valkey import eventually

ROOT = "POST /v1/chat/completions"
MISS_TREE = {
    ROOT: "",
    "auth.authenticate": ROOT,
    "auth.limit": ROOT,
    "cache.lookup": ROOT,
    "cache.exact": "cache.lookup",
    "backend.route": ROOT,
    "chat m1": ROOT,
    "cache.store": ROOT,
}
HIT_TREE = {
    name: MISS_TREE[name] for name in (ROOT, "auth.authenticate", "auth.limit", "cache.lookup", "cache.exact")
}


def check(trace: Trace) -> None:
    """What holds for every trace: one root, known parents, ends after starts, inside the trace's own ids."""
    ids = {span.span_id for span in trace.spans}
    assert len(ids) == len(trace.spans)
    for span in trace.spans:
        assert span.end_time_unix_nano >= span.start_time_unix_nano > 0
        if span is not trace.root:
            assert span.parent_span_id in ids


async def settled(collector: Collector) -> None:
    """Wait until no more spans come in."""
    seen = -1
    while seen != len(collector.spans):
        seen = len(collector.spans)
        await asyncio.sleep(0.15)


async def test_a_miss_and_a_hit_have_exactly_the_spans_of_their_path(monkeypatch):
    async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
        async with running_gateway(upstream) as gateway:
            miss = await gateway.chat()
            hit = await gateway.chat()
        miss_trace = await collector.trace(miss.headers["x-trace-id"], spans=len(MISS_TREE))
        hit_trace = await collector.trace(hit.headers["x-trace-id"], spans=len(HIT_TREE))
        await settled(collector)
        assert len({span.trace_id for span in collector.spans}) == 2
    assert miss_trace.tree() == MISS_TREE
    assert hit_trace.tree() == HIT_TREE
    for trace in (miss_trace, hit_trace):
        check(trace)
    (link,) = hit_trace["cache.lookup"].links
    assert link.trace_id.hex() == miss.headers["x-trace-id"]
    facts = attributes(hit_trace.root)
    assert facts["echogate.cache.outcome"] == "HIT-EXACT"
    assert facts["echogate.tenant"] == "acme"
    assert facts["echogate.request_id"] == hit.headers["x-echogate-request-id"]
    chat = attributes(miss_trace["chat m1"])
    assert (chat["gen_ai.operation.name"], chat["gen_ai.usage.input_tokens"]) == ("chat", 7)


async def test_the_backend_is_a_child_of_the_client_span_and_the_caller_the_parent_of_the_server_span(
    monkeypatch,
):
    async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
        async with running_gateway(upstream) as gateway:
            parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            reply = await gateway.chat(headers={"traceparent": parent, "tracestate": "a=1"})
        trace = await collector.trace("0af7651916cd43dd8448eb211c80319c", spans=len(MISS_TREE))
    assert reply.headers["x-trace-id"] == "0af7651916cd43dd8448eb211c80319c"
    assert trace.root.parent_span_id.hex() == "b7ad6b7169203331"
    sent = upstream.calls[0].headers
    assert sent["traceparent"] == f"00-0af7651916cd43dd8448eb211c80319c-{trace['chat m1'].span_id.hex()}-01"
    assert sent["tracestate"] == "a=1"
    assert sent["x-request-id"] == reply.headers["x-echogate-request-id"] + "-1"


async def test_a_streamed_request_abandoned_by_the_client_is_one_whole_trace(monkeypatch):
    async with ScriptedUpstream(words=400) as upstream, collecting(monkeypatch) as collector:
        upstream.chunk_delay_s = 0.02
        async with running_gateway(upstream) as gateway:
            async with gateway.chat_stream() as reply:
                async for _ in reply.aiter_lines():
                    break
            trace_id = reply.headers["x-trace-id"]
            await collector.trace(trace_id, spans=len(MISS_TREE) - 1)
            await settled(collector)
        trace = Trace(collector.of(trace_id))
    assert trace.tree() == {name: parent for name, parent in MISS_TREE.items() if name != "cache.store"}
    check(trace)
    facts = attributes(trace.root)
    assert (facts["echogate.outcome"], facts["http.response.status_code"]) == ("client_closed", 499)


async def test_a_retry_shows_both_attempts_each_with_its_own_span(monkeypatch):
    async with ScriptedUpstream() as one, ScriptedUpstream() as other, collecting(monkeypatch) as collector:
        for upstream in (one, other):
            upstream.reply_json({"error": "x"}, status=500)
        async with running_gateway(one, other) as gateway:
            reply = await gateway.chat()
        assert reply.status_code == 500
        trace = await collector.trace(reply.headers["x-trace-id"], spans=9)
    assert trace.names.count("chat m1") == trace.names.count("backend.route") == 2
    parents = {call.headers["traceparent"].split("-")[2] for call in (*one.calls, *other.calls)}
    assert parents == {span.span_id.hex() for span in trace.spans if span.name == "chat m1"}
    check(trace)


async def test_failing_requests_are_kept_though_not_sampled_and_others_are_not(monkeypatch):
    async with ScriptedUpstream() as upstream, collecting(monkeypatch, sampled=False) as collector:
        async with running_gateway(upstream) as gateway:
            fine = await gateway.chat("fine")
            upstream.stream([delta("a"), CUT])
            async with gateway.chat_stream("broken") as broken:
                await broken.aread()
        trace = await collector.trace(broken.headers["x-trace-id"], spans=len(MISS_TREE) - 1)
        await settled(collector)
        assert collector.of(fine.headers["x-trace-id"]) == []
    assert [call.headers["traceparent"][-2:] for call in upstream.calls] == ["00", "00"]
    assert attributes(trace.root)["echogate.trace.kept"] == "tail"
    assert trace.root.status.code == 2
    check(trace)


async def test_otel_sdk_disabled_sends_nothing(monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
        async with running_gateway(upstream) as gateway:
            assert "x-trace-id" in (await gateway.chat()).headers
            upstream.cut(times=2)
            await gateway.chat("other")
        await settled(collector)
        assert collector.spans == []


@pytest.mark.parametrize("stay", [True, False], ids=["leader-stays", "leader-leaves"])
async def test_a_shared_call_is_in_its_leaders_trace_and_linked_from_the_followers(monkeypatch, stay):
    async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
        upstream.first_byte_delay_s = 0.3
        async with running_gateway(upstream) as gateway:
            leading = asyncio.create_task(
                gateway.chat(headers={"traceparent": f"00-{'1' * 32}-{'1' * 16}-01"})
            )
            await upstream.wait_calls(1)
            following = asyncio.create_task(gateway.chat())
            await eventually(lambda: gateway.plane.in_flight == 2)
            if not stay:
                leading.cancel()
            follower = await following
            await asyncio.wait([leading])
        leader_trace = await collector.trace("1" * 32, spans=len(MISS_TREE))
        follower_trace = await collector.trace(follower.headers["x-trace-id"], spans=len(HIT_TREE))
        await settled(collector)
    assert leader_trace.tree() == MISS_TREE | {ROOT: ""}
    assert follower_trace.tree() == HIT_TREE
    assert [link.span_id for link in follower_trace.root.links] == [leader_trace["chat m1"].span_id]
    assert follower.headers["x-cache-reason"] == "shared"


async def test_nothing_said_and_no_secret_is_in_spans_logs_or_metrics(monkeypatch, capfd):
    secret_words = [f"secret{secrets.token_hex(8)}" for _ in range(4)]
    prompt, answer, wrong_key, user = secret_words
    monkeypatch.setenv("TEST_BACKEND_KEY", "backend-credential")
    async with ScriptedUpstream() as one, ScriptedUpstream() as other, collecting(monkeypatch) as collector:
        one.reply_json({"error": {"message": f"failed on {prompt}"}}, status=500)
        other.reply_json({"error": {"message": f"failed on {prompt}"}}, status=500)
        one.reply_json({"choices": [{"message": {"content": answer}, "finish_reason": "stop"}]})
        other.reply_json({"choices": [{"message": {"content": answer}, "finish_reason": "stop"}]})
        async with running_gateway(one, other) as gateway:
            for _ in range(3):
                await gateway.chat(f"what is {prompt}", user=user)
            await gateway.chat(prompt, key=wrong_key)
            await gateway.post(b'{"messages": "%s"' % prompt.encode())
            gateway.valkey.hang()
            await gateway.chat(prompt, user=user)
            gateway.valkey.resume()
            metrics = str(gateway.plane.metrics.snapshot())
            key = gateway.key
        await settled(collector)
        told = " ".join(str(span) for span in collector.spans) + metrics + capfd.readouterr().err
    assert len(collector.spans) > 20
    for word in (*secret_words, key.split("-", 2)[2]):
        assert word not in told


async def test_a_long_stream_has_a_constant_number_of_spans_and_lasts_as_long_as_the_stream(monkeypatch):
    async with ScriptedUpstream(words=2000) as upstream, collecting(monkeypatch) as collector:
        async with running_gateway(upstream) as gateway, gateway.chat_stream() as reply:
            chunks = events((await reply.aread()).decode())
        trace = await collector.trace(reply.headers["x-trace-id"], spans=len(MISS_TREE))
        await settled(collector)
        assert len(collector.of(reply.headers["x-trace-id"])) == len(MISS_TREE) <= 10
    assert len(chunks) > 2000
    chat: Span = trace["chat m1"]
    assert trace.root.end_time_unix_nano >= chat.end_time_unix_nano
