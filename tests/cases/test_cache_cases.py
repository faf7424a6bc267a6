"""Answers that other caches gave to the wrong question or the wrong caller, tried through the HTTP door."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.settings.reading import Settings
from tests.cases.speaking import official_sdk
from tests.running import answer_of, running_gateway
from tests.scripted import ScriptedUpstream
from tests.valkey import running_valkey

ROOT = Path(__file__).parents[2]
QUESTION = "Is there rain in Oslo?"
TOOL = {"type": "function", "function": {"name": "get_rain", "parameters": {"type": "object"}}}


def schema(name: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": {"type": "object"}}}


def image(data: str, **more: str) -> dict[str, Any]:
    url = {"url": f"data:image/png;base64,{data}", **more}
    return {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is shown?"},
                    {"type": "image_url", "image_url": url},
                ],
            }
        ]
    }


# Prints the digest of a request's partition.
PARTITION = """
from auth import Principal
from backends import Version
from cache.identity import partition
from gateway.body import split
from gateway.controls import Controls
from gateway.dialects import CHAT
from gateway.eligibility import plan

body = b'{"messages":[{"role":"user","content":"q"}],"tools":[{"b":1,"a":{"d":1,"c":2}}],"x":{"z":1,"y":2.0}}'
who = Principal(key_id="k", tenant="t", service="s")
made = plan(split(body).values, dialect=CHAT, principal=who, version=Version("m1", "r"), controls=Controls())
print(partition(b"s" * 32, made.namespace, made.material).digest.hex())
"""

# Each of these asks the same words for another answer.
DIFFERENT: list[dict[str, Any]] = [
    {},
    {"tools": [TOOL]},
    {"tools": [TOOL], "tool_choice": "none"},
    {"response_format": {"type": "json_object"}},
    {"response_format": schema("a")},
    {"response_format": schema("b")},
    {"logprobs": True},
    {"stop": ["."]},
    {"presence_penalty": 1},
    {"temperature": 1.0},
    {"top_p": 0.1},
    {"top_k": 1},
    {"top_k": 40},
    {"guided_choice": ["x"]},
    {"guided_choice": ["y"]},
    {"chat_template_kwargs": {"enable_thinking": True}},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"max_tokens": 5},
    {"seed": 1},
    {"n": 2},
    {"foo": 1},
    {"foo": 2},
    {"foo": None},
    {"model": "m2"},
    image("cmVk"),
    image("Ymx1ZQ=="),
    image("cmVk", detail="low"),
]


class TestWhatMakesAnotherQuestion:
    @pytest.mark.parametrize("order", [1, -1], ids=["forward", "backward"])
    async def test_a_request_that_differs_in_any_field_is_never_given_anothers_answer(
        self, order: int
    ) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            answers = set()
            for fields in DIFFERENT[::order]:
                reply = await gateway.chat(QUESTION, **fields)
                assert (fields, reply.headers["x-cache"]) == (fields, "MISS")
                answers.add(answer_of(reply))
            assert len(answers) == len(DIFFERENT)
            for fields in DIFFERENT:
                reply = await gateway.chat(QUESTION, **fields)
                assert (fields, reply.headers["x-cache"]) == (fields, "HIT-EXACT")
                assert answer_of(reply) in answers

    async def test_the_last_turn_alone_never_decides(self) -> None:
        def talk(first: str, second: str) -> dict[str, Any]:
            turns = [("user", first), ("assistant", second), ("user", "go on")]
            return {"messages": [{"role": role, "content": text} for role, text in turns]}

        rivers, metals = talk("List 3 rivers", "Nile"), talk("List 3 metals", "Iron")
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            first, other, again = [await gateway.chat(**talked) for talked in (rivers, metals, rivers)]
        assert [reply.headers["x-cache"] for reply in (first, other, again)] == ["MISS", "MISS", "HIT-EXACT"]
        assert answer_of(again) == answer_of(first) != answer_of(other)

    async def test_sampled_answers_repeat_only_at_their_own_temperature(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            outcomes = [
                (await gateway.chat(QUESTION, temperature=heat)).headers["x-cache"]
                for heat in (0, 1.0, 1, 1.0, 0.0, 2)
            ]
        assert outcomes == ["MISS", "MISS", "HIT-EXACT", "HIT-EXACT", "HIT-EXACT", "MISS"]

    @pytest.mark.parametrize("revisions", [("r1", "r2"), (None, None)], ids=["configured", "guessed"])
    async def test_what_a_name_stands_for_is_part_of_the_question(
        self, revisions: tuple[str | None, str | None], tmp_path: Path
    ) -> None:
        """Behind a public name another model can be put: by configuration, or by a server that was restarted."""
        async with running_valkey() as valkey, ScriptedUpstream() as one, ScriptedUpstream("tuned") as other:
            for upstream, revision in ((one, revisions[0]), (other, revisions[1]), (one, revisions[0])):
                member = {"url": upstream.base_url, "model": upstream.model, "revision": revision}
                usual = {
                    "data_dir": tmp_path,
                    "store": {"deadline_ms": 2000},
                    "cache": {"embedder": {"kind": "none"}},
                }
                settings = Settings.model_validate({"pools": {"m1": [member]}, **usual})
                async with running_gateway(valkey=valkey, settings=settings) as gateway:
                    await gateway.chat(QUESTION)
            assert (len(one.calls), len(other.calls)) == (1, 1)

    async def test_any_order_spacing_and_number_form_is_the_same_question(self) -> None:
        one = '{"type":"function","function":{"a":1,"b":{"c":2,"d":[1,2.0]}}}'
        other = '{"function":{"b":{"d":[1.0,2],"c":2},"a":1e0},"type":"function"}'
        bodies = [
            f'{{"model":"m1","temperature":1,"tools":[{one}],"messages":[{{"role":"user","content":"q?"}}]}}',
            f'{{"messages":[{{"content":"q?","role":"user"}}],"tools":[{other}],"model":"m1","temperature":1.0}}',
            f'{{ "tools":[{one}],"messages":[{{"role":"user","content":"\\u0071?"}}],"model":"m1","temperature":1e0}}',
        ]
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            outcomes = [(await gateway.post(body.encode())).headers["x-cache"] for body in bodies]
        assert outcomes == ["MISS", "HIT-EXACT", "HIT-EXACT"]

    def test_another_process_with_other_hashes_finds_the_same_partition(self) -> None:
        digests = {
            subprocess.run(
                [sys.executable, "-c", PARTITION],
                cwd=ROOT,
                env=os.environ | {"PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for seed in ("0", "1", "4242")
        }
        assert len(digests) == 1


class TestWhoIsAsking:
    async def test_another_tenants_reply_has_nothing_in_common_with_mine(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            other = await gateway.new_key("umbrella")
            await gateway.chat(QUESTION)
            mine, theirs = await gateway.chat(QUESTION), await gateway.chat(QUESTION, key=other)
        assert (mine.headers["x-cache"], theirs.headers["x-cache"]) == ("HIT-EXACT", "MISS")
        assert not {"x-cache-id", "x-cache-similarity", "age"} & set(theirs.headers)
        assert {mine.headers["x-cache-id"], mine.json()["id"], answer_of(mine)}.isdisjoint(
            {*theirs.headers.values(), theirs.json()["id"], answer_of(theirs)}
        )

    async def test_two_tenants_who_ask_at_the_same_moment_share_no_call(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.first_byte_delay_s = 0.3
            keys = [gateway.key, await gateway.new_key("umbrella"), await gateway.new_key("initech")]
            replies = await asyncio.gather(*(gateway.chat(QUESTION, key=key) for key in keys))
            assert len({answer_of(reply) for reply in replies}) == len(upstream.calls) == 3
            assert "shared" not in {reply.headers.get("x-cache-reason") for reply in replies}


class TestAsking:
    async def test_every_documented_way_around_the_cache_works_through_the_sdk(self) -> None:
        ways: list[dict[str, Any]] = [
            {"extra_headers": {"cache-control": "no-cache"}},
            {"extra_headers": {"Cache-Control": "No-Store"}},
            {"extra_headers": {"x-cache-mode": "off"}},
            {"extra_body": {"cache": {"no-cache": True}}},
            {"extra_body": {"cache": {"no-store": True}}},
            {"extra_body": {"cache": {"use-cache": False}}},
        ]
        asked: dict[str, Any] = {"model": "m1", "messages": [{"role": "user", "content": QUESTION}]}
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream) as gateway,
            official_sdk(gateway) as sdk,
        ):
            for count, way in enumerate([{}, *ways], 1):
                await sdk.chat.completions.create(**asked, **way)
                assert (way, len(upstream.calls)) == (way, count)
            await sdk.chat.completions.create(**asked)
            assert len(upstream.calls) == 1 + len(ways)

    async def test_a_control_of_ours_that_is_misspelt_is_refused_and_not_ignored(self) -> None:
        wrong: list[tuple[dict[str, str], dict[str, Any]]] = [
            ({"x-cache-mode": "semantik"}, {}),
            ({"x-cache-mode": "EXACT?"}, {}),
            ({"x-cache-threshold": "high"}, {}),
            ({"x-cache-threshold": "nan"}, {}),
            ({"x-cache-threshold": "2"}, {}),
            ({"x-cache-namespace": "Über"}, {}),
            ({"cache-control": "max-age=soon"}, {}),
            ({"cache-control": "max-age=-1"}, {}),
            ({}, {"cache": {"no_cache": True}}),
            ({}, {"cache": {"no-cache": "yes"}}),
            ({}, {"cache": True}),
        ]
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for headers, fields in wrong:
                raw = {name: value.encode("latin-1") for name, value in headers.items()}
                reply = await gateway.chat(QUESTION, headers=raw, **fields)  # type: ignore[arg-type] # httpx takes bytes too
                assert (headers, fields, reply.status_code) == (headers, fields, 400)
            assert upstream.calls == []
