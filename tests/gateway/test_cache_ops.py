"""What admins are told of the cache: what would be answered and why, what was decided, how namespaces stand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from msgspec.structs import replace

from cache.acceptance import WIDTH
from cache.acceptance.vetoes import VETOES
from cache.evidence.learning import prior
from gateway.evidence.desk import CacheTold, ExplainPast, ExplainRequest, Report, WhyNoHits
from gateway.host.control import CacheModeChanged
from tests.cache.prepared import prepared_model
from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream
from tests.valkey import eventually

SEMANTIC = {"embedder": {"kind": "onnx", "model": str(prepared_model())}, "semantic_deadline_ms": 5000}
ASKED = "What is the capital city of France?"
SAME = "What's the capital city of France?"
OTHER_WORDS = "Which is the capital city of France?"
OPPOSITE = "What's not the capital city of France?"


async def ask(gateway: RunningGateway, text: str, **more: Any) -> str:
    """The request's id."""
    reply = await gateway.chat(text, **more)
    await gateway.idle()
    return str(reply.headers["x-echogate-request-id"])


async def explained(
    gateway: RunningGateway, text: str, tenant: str = "acme", **fields: Any
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": "m1",
        "temperature": 0,
        "messages": [{"role": "user", "content": text}],
    } | fields
    told = await gateway.ask_cache(ExplainRequest(body, tenant))
    assert told.told is not None, told.problem
    return told.told


async def past(gateway: RunningGateway, request_id: str) -> CacheTold:
    async with asyncio.timeout(10):  # decisions are written in the background
        while (found := await gateway.ask_cache(ExplainPast(request_id))).told is None:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    return found


async def test_a_hit_is_explained_with_its_neighbours_and_no_model_is_asked() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        request_id = await ask(gateway, ASKED)
        found = await explained(gateway, SAME)
        assert (found["would"], found["reason"]) == ("HIT-SEMANTIC", "accepted")
        (near,) = found["neighbours"]
        assert near["similarity"] >= near["threshold"]
        assert (near["vetoes"], near["is_accepted"]) == ([], True)
        assert near["origin"]["request_id"] == request_id
        assert near["origin"]["backend"] == "m1-1"
        assert (near["origin"]["model"], near["origin"]["revision"]) == ("m1", "r1")
        assert set(near["vetoes_passed"]) == set(VETOES)
        assert (near["score"], near["least_score"], near["alias_of"]) == (None, None, None)
        assert near["age_s"] >= 0
        assert near["has_equal_form"]
        assert found["entry"]["id"] == near["id"]
        assert found["standing"]["state"] == "on"
        assert (await explained(gateway, ASKED))["would"] == "HIT-EXACT"
        assert len(upstream.calls) == 1


async def test_a_miss_is_explained_by_all_that_speaks_against_it() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED)
        found = await explained(gateway, OPPOSITE)
        assert found["would"] == "MISS"
        near = found["neighbours"][0]
        assert not near["has_equal_form"]
        assert "negation" in near["vetoes"]
        assert set(near["vetoes"]) | set(near["vetoes_passed"]) == set(VETOES)
        assert set(near["vetoes"]) & set(near["vetoes_passed"]) == set()


async def test_what_would_be_answered_is_told_of_each_tier_with_its_keys() -> None:
    zh, alike = "请问如何学好英语口语", "怎样学好英语口语呢？"
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED)
        await ask(gateway, zh)
        typed, own = await explained(gateway, ASKED.upper()), await explained(gateway, ASKED)
        assert (typed["would"], typed["reason"]) == ("HIT-EXACT", "normalised")
        assert (typed["exact_key"], typed["canonical_key"]) == (own["exact_key"], None)
        of_form, its_own = await explained(gateway, alike), await explained(gateway, zh)
        assert (of_form["would"], of_form["reason"]) == ("HIT-SEMANTIC", "canonical")
        assert of_form["canonical_key"] == its_own["canonical_key"] is not None
        assert of_form["exact_key"] != its_own["exact_key"] == of_form["entry"]["id"]
        assert len(upstream.calls) == 2


async def test_no_more_than_the_eight_nearest_are_told_nearest_first() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        for country in ("Peru", "Chile", "Cuba", "Oman", "Iran", "Mali", "Togo", "Fiji", "Laos", "Iraq"):
            await ask(gateway, f"What is the capital city of {country}?")
        near = (await explained(gateway, ASKED))["neighbours"]
        similarities = [each["similarity"] for each in near]
        assert len(near) == 8
        assert similarities == sorted(similarities, reverse=True)


async def test_where_a_score_is_learned_it_is_told_with_the_least_that_would_do() -> None:
    cache = SEMANTIC | {"policy": "learned"}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=cache) as gateway:
        await ask(gateway, ASKED)
        ruling = gateway.plane.cache.evidence.of("acme/default/m1")
        ruling.standing = replace(ruling.standing, weights=prior(WIDTH), least_score=100.0)
        (near,) = (await explained(gateway, SAME))["neighbours"]
        assert near["reason"] == "below-score"
        assert near["score"] < near["least_score"] == 100.0


async def test_the_parts_that_must_match_are_told_as_digests() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        one = (await explained(gateway, ASKED))["partition"]
        other = (await explained(gateway, ASKED, temperature=0.5))["partition"]
        assert {name for name in one if one[name] != other[name]} == {"fields.temperature"}


async def test_a_bypass_is_explained() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        found = await explained(gateway, "Tell me another joke")
        assert (found["would"], found["reason"]) == ("BYPASS", "freshness")


async def test_nothing_of_another_tenant_is_found() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED)
        found = await explained(gateway, SAME, tenant="umbrella")
        assert (found["would"], found["neighbours"]) == ("MISS", [])


async def test_a_request_that_would_be_refused_has_its_reason() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        told = await gateway.ask_cache(ExplainRequest({"model": "unknown", "messages": []}, "acme"))
        assert told.told is None
        assert "unknown" in (told.problem or "")


async def test_a_past_request_is_explained_by_its_id_without_its_texts() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED)
        told = (await past(gateway, await ask(gateway, SAME))).told
        assert told is not None
        assert (told["outcome"], told["tier"], told["reason"]) == ("hit", "semantic", "accepted")
        assert told["verdict"]["threshold"] == 0.95
        assert "France" not in json.dumps(told)


async def test_a_miss_and_both_kinds_of_hits_name_the_entry_of_the_very_question() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        missed = (await past(gateway, await ask(gateway, ASKED))).told
        exact = (await past(gateway, await ask(gateway, ASKED))).told
        similar = (await past(gateway, await ask(gateway, SAME))).told
        assert missed is not None
        assert exact is not None
        assert similar is not None
        assert [missed["outcome"], exact["tier"], similar["tier"]] == ["miss", "exact", "semantic"]
        assert missed["exact_key"] == exact["exact_key"] != similar["exact_key"]
        assert int(missed["exact_key"], 16)


async def test_of_an_unknown_request_nothing_is_told() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        assert (await gateway.ask_cache(ExplainPast("req_none"))).is_unknown


async def test_the_report_tells_how_a_namespace_stands_and_who_judged() -> None:
    audits = {"shadow_share": 1, "served_share": 1}
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream, cache=SEMANTIC | {"audits": audits}) as gateway,
    ):
        await ask(gateway, ASKED)
        await ask(gateway, SAME)  # a hit, which is audited: the upstream's answers all differ
        await eventually(
            lambda: gateway.plane.cache.standing("acme/default/m1").wrong_share.audits > 0, within_s=10
        )
        told = (await gateway.ask_cache(Report())).told
        assert told is not None
        (namespace,) = told["data"]
        assert (namespace["tenant"], namespace["namespace"], namespace["model"]) == ("acme", "default", "m1")
        assert namespace["f"]["judged_by"] == ["agreement"]
        assert namespace["f"]["audits"] == 1
        assert set(namespace["sample"]) == {"requests", "hits", "reasons"}
        assert (await gateway.ask_cache(Report("umbrella"))).told == {"object": "list", "days": 7, "data": []}


async def test_the_report_tells_what_hits_saved_and_what_was_served_most_and_refused() -> None:
    prices = {"m1": {"input": 1_000_000.0, "output": 0.0}}
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream, cache=SEMANTIC, prices=prices) as gateway,
    ):
        await ask(gateway, ASKED)
        await ask(gateway, ASKED)
        await ask(gateway, SAME)
        await ask(gateway, "Tell me another joke")
        namespace: dict[str, Any] = {"requests": 0}
        async with asyncio.timeout(10):  # written in the background
            while namespace["requests"] < 4:
                told = (await gateway.ask_cache(Report())).told
                assert told is not None
                namespace = told["data"][0] if told["data"] else namespace
                await asyncio.sleep(0.01)
        assert (namespace["hits"], namespace["hit_share"]) == (2, 0.5)
        assert namespace["hits_by_tier"] == {"exact": 1, "semantic": 1}
        saved = namespace["saved"]
        assert saved["cost"] == saved["input_tokens"] > 0
        assert saved["seconds"] >= 0
        (entry,) = namespace["top_entries"]
        assert entry["hits"] == 2
        refused = {each["reason"]: each["requests"] for each in namespace["top_refusals"]}
        assert refused == {"absent": 1, "freshness": 1}
        assert "France" not in json.dumps(told)


async def test_in_shadow_mode_a_similar_answer_is_judged_and_not_served() -> None:
    cache = SEMANTIC | {"mode": "shadow", "audits": {"shadow_share": 1}}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=cache) as gateway:
        await ask(gateway, ASKED)
        reply = await gateway.chat(SAME)
        assert (reply.headers["x-cache"], reply.headers["x-cache-reason"]) == ("MISS", "shadow")
        await eventually(
            lambda: gateway.plane.cache.standing("acme/default/m1").wrong_share.audits == 1, within_s=10
        )


async def test_a_mode_can_be_switched_for_one_namespace_without_a_restart_and_back() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED)
        gateway.control(CacheModeChanged("acme", "default", "shadow"))
        assert (await gateway.chat(SAME)).headers["x-cache-reason"] == "shadow"
        gateway.control(CacheModeChanged("acme", "default", "exact"))
        assert (await gateway.chat(OTHER_WORDS)).headers["x-cache-reason"] == "mode-exact"
        gateway.control(CacheModeChanged("acme", "default", "off"))
        assert (await gateway.chat(ASKED)).headers["x-cache-reason"] == "mode-off"
        gateway.control(CacheModeChanged("umbrella", "default", "off"))
        gateway.control(CacheModeChanged("acme", "default", None))
        await gateway.idle()
        assert (await gateway.chat("What is the capital city in France?")).headers[
            "x-cache"
        ] == "HIT-SEMANTIC"


async def test_a_namespace_can_be_configured_otherwise() -> None:
    cache = SEMANTIC | {
        "namespaces": {"careful": {"mode": "exact", "ttl_s": 60}, "strict": {"threshold": 0.9999}}
    }
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=cache) as gateway:
        for namespace, reason in (("careful", "mode-exact"), ("strict", "below-threshold")):
            headers = {"x-cache-namespace": namespace}
            await ask(gateway, ASKED, headers=headers)
            assert (await gateway.chat(SAME, headers=headers)).headers["x-cache-reason"] == reason
            await gateway.idle()


async def test_why_nothing_hits_is_told_by_what_always_differs() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        for day in range(5):
            turns = [("system", f"Today is day {day}."), ("user", ASKED)]
            await ask(gateway, ASKED, messages=[{"role": role, "content": text} for role, text in turns])
        told = (await gateway.ask_cache(WhyNoHits("acme"))).told or {}
        while told["requests"] < 5:
            told = (await gateway.ask_cache(WhyNoHits("acme"))).told or {}
        assert (told["hits"], told["partitions"], told["partitions_seen_once"]) == (0, 5, 1.0)
        assert told["varying"] == [{"part": "messages.0", "values": 5, "requests": 5}]
        assert told["varied_most"] == "messages.0"
        assert "day" not in json.dumps(told)
        other = (await gateway.ask_cache(WhyNoHits("umbrella"))).told or {}
        assert other["requests"] == 0
