"""Similar questions that other caches took for the same, or could not be stopped from taking, tried through HTTP."""

from __future__ import annotations

import httpx
import pytest

from tests.cache.prepared import prepared_model
from tests.running import RunningGateway, answer_of, running_gateway
from tests.scripted import Call, ScriptedUpstream, Wire, completion

SEMANTIC = {
    "embedder": {"kind": "onnx", "model": str(prepared_model())},
    "semantic_deadline_ms": 5000,
    "audits": {"shadow_share": 0, "served_share": 0},
}


async def ask(gateway: RunningGateway, text: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = await gateway.chat(text, headers=named)
    await gateway.idle()
    return reply


async def echo(call: Call, wire: Wire) -> None:
    """The answer names the question."""
    await wire.json(completion(f"About: {call.json['messages'][-1]['content']}"))


class TestOfTheSamePattern:
    """A question is not answered with another topic's answer because their phrases are alike."""

    async def test_more_entries_never_bring_anothers_answer(self) -> None:
        kettle, ledger = "What is a kettle for?", "What is a ledger for?"
        async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
            upstream.handler = echo
            for _ in range(2):
                for text in (kettle, ledger, "Explain the purpose of a kettle"):
                    said = answer_of(await ask(gateway, text))
                    assert ("kettle" in said, "ledger" in said) == ("kettle" in text, "ledger" in text)

    @pytest.mark.parametrize("least", ["0.05", "0.5", "0.95"])
    async def test_a_low_threshold_of_a_caller_opens_nothing(self, least: str) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
            await ask(gateway, "How long do I boil an egg?")
            unrelated = await ask(gateway, "Who painted the Mona Lisa?", x_cache_threshold=least)
            assert unrelated.headers["x-cache"] == "MISS"


class TestCorrecting:
    """A wrong answer can be corrected for good, by whoever got it."""

    async def test_it_is_gone_for_the_question_and_for_its_paraphrases(self) -> None:
        asked, alike = "What is the capital city of Australia?", "What's the capital city of Australia?"
        async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
            upstream.reply_json(completion("Sydney."))
            await ask(gateway, asked)
            wrong = await ask(gateway, alike)
            assert answer_of(wrong) == "Sydney."
            for reply in (wrong, await ask(gateway, asked)):
                report = {"request_id": reply.headers["x-echogate-request-id"], "rating": "wrong"}
                headers = {"authorization": f"Bearer {gateway.key}"}
                await gateway.client.post("/v1/cache/feedback", json=report, headers=headers)
            assert "Sydney." not in {answer_of(await ask(gateway, text)) for text in (asked, alike, asked)}
