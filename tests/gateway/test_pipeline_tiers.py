"""Each tier through the whole data plane, hit and miss, as JSON and as a stream, on the real embedding model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.trust_faults import other_histories
from tests.cache.prepared import prepared_model
from tests.collector import attributes, collecting
from tests.running import RunningGateway, answer_of, running_gateway, streamed_text
from tests.scripted import Call, ScriptedUpstream, Wire, completion
from tests.valkey import eventually

NAMESPACE = "acme/default/m1"
SEMANTIC: dict[str, Any] = {
    "embedder": {"kind": "onnx", "model": str(prepared_model())},
    "semantic_deadline_ms": 5000,
    "audits": {"shadow_share": 0, "served_share": 0},
}
ASKED_ZH, ALIKE_ZH, UNLIKE_ZH = "请问如何学好英语口语", "怎样学好英语口语呢？", "怎样学好日语口语呢？"
HISTORIES = Path(__file__).parents[3] / "shared" / "data" / "multiturn-pairs.jsonl"


async def ask(gateway: RunningGateway, text: str, **more: Any) -> httpx.Response:
    reply = await gateway.chat(text, **more)
    await gateway.idle()
    return reply


def told(reply: httpx.Response) -> tuple[str | None, str | None]:
    return reply.headers["x-cache"], reply.headers.get("x-cache-reason")


async def streamed(gateway: RunningGateway, text: str) -> tuple[httpx.Response, str]:
    async with gateway.chat_stream(text) as reply:
        return reply, streamed_text((await reply.aread()).decode())


def looked_up(gateway: RunningGateway, outcome: str, reason: str) -> float | None:
    labels = {"outcome": outcome, "reason": reason}
    return gateway.plane.metrics.registry.get_sample_value("echogate_cache_lookups_total", labels)


@pytest.mark.parametrize("mode", ["exact", "shadow", "semantic"])
async def test_a_question_typed_otherwise_is_an_exact_hit_in_every_mode(mode: str) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        headers = {"x-cache-mode": mode, "x-cache-threshold": "1"}
        first = await ask(gateway, "What is TLS?", headers=headers)
        again = await ask(gateway, " what  is tls", headers=headers)
        reply, said = await streamed(gateway, "WHAT IS TLS")
        assert told(again) == told(reply) == ("HIT-EXACT", "normalised")
        assert again.headers["x-cache-similarity"] == "1.0000"
        assert again.headers["x-cache-id"] == reply.headers["x-cache-id"]
        assert answer_of(again) == answer_of(first) == said
        assert told(await ask(gateway, "What is TLS?")) == ("HIT-EXACT", None)
        assert len(upstream.calls) == 1
        assert looked_up(gateway, "HIT-EXACT", "normalised") == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What does the flag -R do?", "What does the flag -r do?"),
        ("Does Bob know US law?", "Does Bob know us law?"),
        ("You are coming?", "You are coming."),
        ("How much is 3!?", "How much is 3?"),
        ("Correct this: i am hungry", "Correct this: I am hungry"),
    ],
)
async def test_one_that_may_mean_something_else_is_not(one: str, other: str) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        exact = {"x-cache-mode": "exact"}
        await ask(gateway, one, headers=exact)
        assert told(await ask(gateway, other, headers=exact)) == ("MISS", "mode-exact")


async def test_a_tool_call_is_for_the_very_text_only() -> None:
    tool = {"id": "c1", "type": "function", "function": {"name": "rain", "arguments": '{"city":"oslo"}'}}
    answer = completion("")
    answer["choices"][0] |= {
        "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": None, "tool_calls": [tool]},
    }
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        upstream.reply_json(answer)
        await ask(gateway, "rain in oslo?")
        assert told(await ask(gateway, "rain in oslo?")) == ("HIT-EXACT", None)
        assert told(await ask(gateway, "Rain in Oslo?"))[0] == "MISS"


@pytest.mark.parametrize("embedder", [SEMANTIC["embedder"], {"kind": "none"}])
async def test_a_chinese_question_of_equal_canonical_form_hits_with_any_embedder(
    embedder: dict[str, str],
) -> None:
    cache = SEMANTIC | {"embedder": embedder}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=cache) as gateway:
        first = await ask(gateway, ASKED_ZH)
        alike = await ask(gateway, ALIKE_ZH)
        reply, said = await streamed(gateway, ALIKE_ZH)
        assert told(alike) == told(reply) == ("HIT-SEMANTIC", "canonical")
        assert alike.headers["x-cache-similarity"] == "1.0000"
        assert answer_of(alike) == answer_of(first) == said
        assert told(await ask(gateway, UNLIKE_ZH))[0] == "MISS"
        assert len(upstream.calls) == 2
        assert looked_up(gateway, "HIT-SEMANTIC", "canonical") == 2


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"x-cache-mode": "exact"}, "mode-exact"),
        ({"x-cache-mode": "shadow"}, "shadow"),
        ({"x-cache-threshold": "0.5"}, None),
        ({"x-cache-namespace": "other"}, None),
    ],
)
async def test_it_is_withheld_as_other_similar_answers_are(
    headers: dict[str, str], reason: str | None
) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED_ZH)
        reply = await ask(gateway, ALIKE_ZH, headers=headers)
        assert reply.headers["x-cache"] == "MISS"
        assert reason in (None, reply.headers["x-cache-reason"])


async def test_a_canonical_hit_reported_wrong_is_not_given_again() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED_ZH)
        wrong = await ask(gateway, ALIKE_ZH)
        report = {"request_id": wrong.headers["x-echogate-request-id"], "rating": "wrong"}
        headers = {"authorization": f"Bearer {gateway.key}"}
        assert (
            await gateway.client.post("/v1/cache/feedback", json=report, headers=headers)
        ).status_code == 200
        assert told(await ask(gateway, ALIKE_ZH))[0] == "MISS"
        assert told(await ask(gateway, ASKED_ZH)) == ("HIT-EXACT", None)


ROOT = "How do I reset my password?"
ALIAS, NEAR_ALIAS = "How can I change my forgotten password?", "How could I change my forgotten password?"
SAID = {
    ROOT: "Open the settings, choose security and press reset.",
    ALIAS: "Open the settings, choose security, then press reset.",
}


async def by_question(call: Call, wire: Wire) -> None:
    await wire.json(completion(SAID.get(call.json["messages"][-1]["content"], "Something else.")))


async def test_near_an_alias_the_answer_is_that_of_its_root_until_that_is_gone() -> None:
    cache = SEMANTIC | {"audits": {"shadow_share": 1, "served_share": 0}}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=cache) as gateway:
        upstream.handler = by_question
        root = await ask(gateway, ROOT)
        own = await ask(gateway, ALIAS)
        assert told(own)[0] == "MISS"
        # Judged in the background: the two answers agree.
        await eventually(lambda: bool(gateway.plane.cache.evidence.of(NAMESPACE).aliases), within_s=20)
        near = await ask(gateway, NEAR_ALIAS)
        reply, said = await streamed(gateway, NEAR_ALIAS)
        assert told(near) == told(reply) == ("HIT-SEMANTIC", "alias")
        assert answer_of(near) == answer_of(root) == said
        assert answer_of(await ask(gateway, ALIAS)) == answer_of(own)
        assert 0.95 <= float(near.headers["x-cache-similarity"]) < 1
        assert looked_up(gateway, "HIT-SEMANTIC", "alias") == 2

        await gateway.plane.cache.forget(NAMESPACE, int(near.headers["x-cache-id"], 16))
        left = await ask(gateway, NEAR_ALIAS)
        assert told(left) == ("HIT-SEMANTIC", "accepted")
        assert answer_of(left) == answer_of(own)


async def test_the_tier_is_in_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
        async with running_gateway(upstream, cache=SEMANTIC) as gateway:
            await ask(gateway, ASKED_ZH)
            tiers = {}
            for text, spans in ((ASKED_ZH + "。", 5), (ALIKE_ZH, 6)):
                reply = await ask(gateway, text)
                trace = await collector.trace(reply.headers["x-trace-id"], spans=spans)
                (lookup,) = (span for span in trace.spans if span.name == "cache.lookup")
                tiers[text] = attributes(lookup)["echogate.cache.tier"]
                assert ("cache.canonical" in trace.tree()) == (text == ALIKE_ZH)
        assert tiers == {ASKED_ZH + "。": "normalised", ALIKE_ZH: "canonical"}


@pytest.mark.skipif(not HISTORIES.exists(), reason="needs the conversations of the shared data")
def test_conversations_of_another_history_never_meet() -> None:
    assert other_histories(HISTORIES) == 0
