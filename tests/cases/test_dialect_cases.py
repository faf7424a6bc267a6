"""What went wrong with streams elsewhere, in each dialect that text is asked for: chat, completions, responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.gateway.replying import (
    USAGE,
    event,
    message,
    response,
    response_stream,
    text_chunk,
    text_stream,
)
from tests.running import RunningGateway, running_gateway
from tests.scripted import CUT, HANG, RESET, Part, ScriptedUpstream, delta
from tests.valkey import eventually


@dataclass(frozen=True)
class Speech:
    """How one dialect asks, answers in a stream of two words, and breaks off after them."""

    path: str
    question: str
    whole: list[Part]
    begun: list[Part]
    text_of: Callable[[Any], str]

    def body(self, text: str, **fields: Any) -> dict[str, Any]:
        return {"model": "m1", "temperature": 0, "stream": True, self.question: text} | fields


class Chat(Speech):
    def body(self, text: str, **fields: Any) -> dict[str, Any]:
        return super().body(text, messages=[{"role": "user", "content": text}]) | fields


def _choice_text(told: Any) -> str:
    choice = (told.get("choices") or [{}])[0]
    return str(choice.get("text") or choice.get("delta", {}).get("content") or "")


def _delta_text(told: Any) -> str:
    return str(told["delta"]) if told.get("type") == "response.output_text.delta" else ""


CHAT = Chat(
    "/v1/chat/completions",
    "messages",
    [delta("one "), delta("two"), delta(finish="stop"), "[DONE]"],
    [delta("one "), delta("two")],
    _choice_text,
)
COMPLETIONS = Speech(
    "/v1/completions",
    "prompt",
    text_stream("one ", "two", usage=False),
    [text_chunk("one "), text_chunk("two")],
    _choice_text,
)
_RESPONSE = response_stream(response(message("one two")))
RESPONSES = Speech("/v1/responses", "input", _RESPONSE, _RESPONSE[:6], _delta_text)
EACH = pytest.mark.parametrize("speech", [CHAT, COMPLETIONS, RESPONSES], ids=lambda speech: speech.question)


async def ask(
    gateway: RunningGateway, speech: Speech, text: str = "q", **fields: Any
) -> tuple[httpx.Response, list[Any]]:
    """The reply and what its events say, [DONE] left out."""
    headers = {"authorization": f"Bearer {gateway.key}"}
    reply = await gateway.client.post(speech.path, json=speech.body(text, **fields), headers=headers)
    await gateway.idle()
    told = [line[6:] for line in reply.text.split("\n") if line.startswith("data: ")]
    return reply, [json.loads(data) for data in told if data != "[DONE]"]


def text(speech: Speech, told: list[Any]) -> str:
    return "".join(speech.text_of(each) for each in told).replace(" ", "")


@EACH
async def test_a_stream_that_never_began_is_asked_of_another_server(speech: Speech) -> None:
    bare: list[list[Part]] = [["[DONE]"], [], ['{"error": {"message": "no"}}', "[DONE]"]]
    async with ScriptedUpstream() as one, ScriptedUpstream() as other, running_gateway(one, other) as gateway:
        for at, parts in enumerate(bare):
            script = iter([parts, speech.whole])  # whoever is asked first says nothing
            for upstream in (one, other):
                upstream.unscript()
                upstream.script(lambda _, wire, script=script: wire.stream(next(script)), times=2)
            reply, told = await ask(gateway, speech, f"q{at}")
            assert (reply.status_code, text(speech, told)) == (200, "onetwo")
        assert len(one.calls) + len(other.calls) == 2 * len(bare)


@EACH
@pytest.mark.parametrize(
    "ending",
    [
        [0.05, CUT],
        [RESET],
        ["{not json"],
        ["null"],
        ['{"error": {"message": "died", "code": 500}}', "[DONE]"],
    ],
    ids=["cut", "reset", "not-json", "null", "error"],
)
async def test_what_had_come_arrives_then_one_error_and_nothing_is_kept(
    speech: Speech, ending: list[Part]
) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        for _ in range(2):
            upstream.stream([*speech.begun, 0.05, *ending])
            reply, told = await ask(gateway, speech)
            assert (reply.status_code, reply.headers["x-cache"]) == (200, "MISS")
            assert text(speech, told) == "onetwo"
            assert [set(each["error"]) for each in told if each.get("error")] == [
                {"message", "type", "param", "code"}
            ]
            assert told[-1].get("error")
            assert "[DONE]" not in reply.text


@EACH
async def test_done_without_an_ending_is_a_failure_of_the_server_and_counted_as_one(speech: Speech) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        for _ in range(4):
            upstream.stream([*speech.begun, "[DONE]"])
            _, told = await ask(gateway, speech)
            assert told[-1]["error"]["code"] == "incomplete_stream"
        (view,) = [view for view in gateway.plane.pools.members() if view.model == "m1"]
        assert view.errors > 0.2


@EACH
async def test_a_200_that_is_no_answer_is_a_failure_of_the_server_too(speech: Speech) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(b"<html>welcome</html>", content_type="text/html", times=4)
        for _ in range(4):
            assert (await ask(gateway, speech, stream=False))[0].status_code == 502
        (view,) = [view for view in gateway.plane.pools.members() if view.model == "m1"]
        assert view.errors > 0.2


@EACH
async def test_a_client_that_leaves_in_the_middle_frees_its_server(speech: Speech) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream([*speech.begun, HANG])
        headers = {"authorization": f"Bearer {gateway.key}"}
        async with gateway.client.stream(
            "POST", speech.path, json=speech.body("q"), headers=headers
        ) as reply:
            async for _ in reply.aiter_lines():
                break
        await upstream.calls[0].wait_closed(10)
        await eventually(lambda: set(gateway.plane.pools.in_flight().values()) == {0})
        upstream.stream(speech.whole)
        assert (await ask(gateway, speech))[0].headers["x-cache"] == "MISS"


@EACH
async def test_all_events_of_a_reply_are_of_one_id_and_one_model(speech: Speech) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream(speech.whole)
        for outcome in ("MISS", "HIT-EXACT"):
            reply, told = await ask(gateway, speech)
            assert reply.headers["x-cache"] == outcome
            heads = [each.get("response", each) for each in told if "model" in each.get("response", each)]
            assert len({(head["id"], head["model"]) for head in heads}) == 1
            assert heads[0]["model"] == "m1"


@EACH
async def test_many_who_ask_the_same_in_either_form_get_the_whole_of_one_call(speech: Speech) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream([*speech.whole[:3], 0.3, *speech.whole[3:]])
        first = asyncio.create_task(ask(gateway, speech))
        await upstream.wait_calls(1)
        others = await asyncio.gather(*(ask(gateway, speech, stream=number % 2 == 0) for number in range(6)))
        await first
        assert len(upstream.calls) == 1
    for number, (reply, told) in enumerate(others):
        assert reply.headers["x-cache"] in ("MISS", "HIT-EXACT")
        if number % 2 == 0:
            assert text(speech, told) == "onetwo"
        else:
            assert "one two" in reply.text


class TestCompletions:
    async def test_three_choices_that_come_mixed_keep_their_numbers(self) -> None:
        parts = [text_chunk(f"t{index}", index=index) for index in (2, 0, 1)]
        parts += [text_chunk("", index=index, finish="stop") for index in (1, 2, 0)]
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([*parts, "[DONE]"])
            for _ in range(2):
                reply, told = await ask(gateway, COMPLETIONS, n=3)
                choices = [each["choices"][0] for each in told]
                texts = {c["index"]: c["text"] for c in choices if c["text"]}
                assert texts == {0: "t0", 1: "t1", 2: "t2"}
                assert sorted(c["index"] for c in choices if c["finish_reason"]) == [0, 1, 2]
            assert reply.headers["x-cache"] == "HIT-EXACT"

    @pytest.mark.parametrize("wanted", [None, False, True])
    async def test_usage_is_told_once_to_who_asked(self, wanted: bool | None) -> None:
        more = {} if wanted is None else {"stream_options": {"include_usage": wanted}}
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream(text_stream("one ", "two"))
            for _ in range(2):
                _, told = await ask(gateway, COMPLETIONS, **more)
                assert [each["usage"] for each in told if each.get("usage")] == ([USAGE] if wanted else [])
            assert upstream.calls[0].json["stream_options"]["include_usage"] is True

    async def test_stream_options_without_a_stream_are_refused(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            options = {"include_usage": True}
            reply, _ = await ask(gateway, COMPLETIONS, stream=False, stream_options=options)
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, "stream_options")
            assert upstream.calls == []


class TestResponses:
    async def test_an_event_of_hundreds_of_kilobytes_passes_unbroken(self) -> None:
        long = "x" * 300_000
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream(response_stream(response(message(long))))
            for outcome in ("MISS", "HIT-EXACT"):
                reply, told = await ask(gateway, RESPONSES)
                assert (reply.headers["x-cache"], text(RESPONSES, told)) == (outcome, long)

    async def test_events_nobody_knows_are_passed_on_with_their_names(self) -> None:
        strange = event("response.x_new", sequence_number=99, x=[1.50])
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([_RESPONSE[0], strange, *_RESPONSE[1:]])
            reply, _ = await ask(gateway, RESPONSES)
        assert strange.decode() in reply.text

    async def test_whoever_has_the_last_event_does_not_wait_for_the_connection_to_end(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([*_RESPONSE, HANG])
            async with asyncio.timeout(20):
                _, told = await ask(gateway, RESPONSES)
                assert told[-1]["type"] == "response.completed"
                assert (await ask(gateway, RESPONSES))[0].headers["x-cache"] == "HIT-EXACT"

    async def test_stream_options_of_a_response_reach_the_server(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream(_RESPONSE)
            await ask(gateway, RESPONSES, stream_options={"include_obfuscation": False})
            assert upstream.calls[0].json["stream_options"] == {"include_obfuscation": False}
