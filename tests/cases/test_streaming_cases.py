"""Streams that broke in other gateways: frames, errors in the middle, usage, odd chunks, and clients in no hurry."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.cases.speaking import chat_body, connection, official_sdk, post_head, spoken, streamed
from tests.running import events, running_gateway, streamed_text
from tests.scripted import CUT, HANG, RESET, Part, ScriptedUpstream, delta
from tests.valkey import eventually

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


NOISES = [
    b": still working\n\n",
    b": ping\r\n\r\n",
    b"id: 7\n: ping\n\n",
    b"event: ping\nretry: 10\n\n",
    b"\n\n\n",
]


def usage_chunk(**fields: Any) -> dict[str, Any]:
    return delta() | {"choices": [], "usage": USAGE} | fields


class TestFrames:
    """What a client's parser has to live with."""

    async def test_whatever_the_server_puts_between_its_events_the_client_gets_data_lines_only(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for noise in NOISES:
                parts: list[Part] = [noise, noise, delta("a"), noise, delta("b"), noise, delta(finish="stop")]
                upstream.stream([*parts, noise, "[DONE]"])
                for outcome in ("MISS", "HIT-EXACT"):
                    async with gateway.chat_stream(f"after {noise!r}") as reply:
                        body = (await reply.aread()).decode()
                    assert (noise, reply.headers["x-cache"]) == (noise, outcome)
                    lines = [line for line in body.split("\n") if line]
                    assert all(line.startswith("data: ") for line in lines)
                    assert all(json.loads(line[6:]) for line in lines[:-1])
                    assert lines[-1] == "data: [DONE]"
                    assert streamed_text(body) == "ab"

    async def test_the_official_sdk_reads_a_stream_that_was_silent_for_long(self) -> None:
        parts: list[Part] = [
            b": wait\n\n",
            0.5,
            delta("a"),
            b": wait\n\n",
            0.3,
            delta(finish="stop"),
            "[DONE]",
        ]
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream(parts)
            async with official_sdk(gateway) as sdk:
                stream = await sdk.chat.completions.create(
                    model="m1", messages=[{"role": "user", "content": "q"}], stream=True
                )
                texts = [chunk.choices[0].delta.content async for chunk in stream]
        assert texts == ["a", None]

    async def test_proxies_are_told_not_to_hold_a_stream_back_cached_ones_too(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for _ in range(2):
                reply, _ = await streamed(gateway)
                assert reply.headers["x-accel-buffering"] == "no"
                assert "no-cache" in reply.headers["cache-control"]
                assert reply.headers["content-type"].startswith("text/event-stream")
                assert "content-length" not in reply.headers

    async def test_with_http_1_0_a_stream_is_not_chunked_and_ends_with_the_connection(self) -> None:
        body = chat_body(stream=True)
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for outcome in ("MISS", "HIT-EXACT"):
                head = post_head(gateway, version="1.0", content_length=str(len(body)))
                status, headers, sent = await spoken(gateway, head, body)
                assert (status, headers["x-cache"]) == (200, outcome)
                assert "transfer-encoding" not in headers
                assert events(sent.decode())[-1] == "[DONE]"

    async def test_with_http_1_0_the_first_chunk_comes_before_the_last_is_made(self) -> None:
        body = chat_body(stream=True)
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([delta("early"), HANG])
            async with connection(gateway) as (reader, writer):
                writer.write(post_head(gateway, version="1.0", content_length=str(len(body))) + body)
                async with asyncio.timeout(20):
                    await reader.readuntil(b"early")

    async def test_every_chunk_of_a_stream_has_the_same_id_and_model(self) -> None:
        ending = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE}
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            # Some servers hang usage on the last choice, so the chunk for it is made here.
            upstream.stream([delta("a"), delta("b"), delta() | ending, "[DONE]"])
            for _ in range(2):
                _, chunks = await streamed(gateway, stream_options={"include_usage": True})
                heads = {(c["id"], c["model"], c["created"], c["object"]) for c in chunks[:-1]}
                assert len(heads) == 1
                assert [c["choices"] for c in chunks[:-1] if not c["choices"]] == [[]]

    async def test_events_of_hundreds_of_kilobytes_pass_unbroken_and_are_counted(self) -> None:
        call = {
            "index": 0,
            "id": "c",
            "type": "function",
            "function": {"name": "f", "arguments": "x" * 300_000},
        }
        parts: list[Part] = [delta(tool_calls=[call]), delta(finish="tool_calls"), usage_chunk(), "[DONE]"]
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream(parts)
            for _ in range(2):
                _, chunks = await streamed(gateway, stream_options={"include_usage": True})
                calls = [c["choices"][0]["delta"].get("tool_calls") for c in chunks[:-1] if c["choices"]]
                (found,) = [each[0] for each in calls if each]
                assert len(found["function"]["arguments"]) == 300_000
                assert chunks[-2]["usage"] == USAGE

    async def test_an_event_beyond_every_bound_ends_in_an_error_frame(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([delta("a"), delta("x" * (5 << 20)), delta(finish="stop"), "[DONE]"])
            _, chunks = await streamed(gateway)
            assert chunks[-1]["error"]["code"] == "upstream_error"
            assert (await streamed(gateway))[0].headers["x-cache"] == "MISS"


class TestUsage:
    @pytest.mark.parametrize("place", ["own-chunk", "last-choice", "every-chunk"])
    async def test_usage_is_told_once_to_who_asked_wherever_the_server_puts_it(self, place: str) -> None:
        everywhere = {"usage": USAGE} if place == "every-chunk" else {}
        last = everywhere or ({"usage": USAGE} if place == "last-choice" else {})
        parts: list[Any] = [delta("a") | everywhere, delta("b") | everywhere, delta(finish="stop") | last]
        parts += [usage_chunk()] if place == "own-chunk" else []
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for options in (None, dict[str, Any](), {"include_usage": False}, {"include_usage": True}):
                more = {} if options is None else {"stream_options": options}
                upstream.stream([*parts, "[DONE]"])
                for outcome in ("MISS", "HIT-EXACT"):
                    reply, chunks = await streamed(gateway, f"with {options}", **more)
                    assert reply.headers["x-cache"] == outcome
                    told = [chunk for chunk in chunks[:-1] if chunk.get("usage")]
                    if options == {"include_usage": True}:
                        assert told == [chunks[-2]]
                        assert (told[0]["choices"], told[0]["usage"]) == ([], USAGE)
                    else:
                        assert told == []
                        assert all(chunk["choices"] for chunk in chunks[:-1])

    async def test_who_asks_for_running_usage_gets_it_as_the_server_sends_it(self) -> None:
        parts = [delta("a") | {"usage": USAGE}, delta(finish="stop") | {"usage": USAGE}, usage_chunk()]
        options = {"include_usage": True, "continuous_usage_stats": True}
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([*parts, "[DONE]"])
            _, chunks = await streamed(gateway, stream_options=options)
            assert [chunk["usage"] for chunk in chunks[:-1]] == [USAGE] * 3
            assert upstream.calls[0].json["stream_options"] == options


class TestBreakingOff:
    @pytest.mark.parametrize("ending", [[0.2, CUT], [RESET], ["{not json"], ["null"]], ids=str)
    async def test_what_had_come_arrives_then_one_error_and_no_stack_trace(
        self, ending: list[Any], capfd: pytest.CaptureFixture[str]
    ) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([delta("one "), delta("two"), 0.05, *ending])
            _, chunks = await streamed(gateway)
        assert [c["choices"][0]["delta"]["content"] for c in chunks[:-1]] == ["one ", "two"]
        assert set(chunks[-1]["error"]) == {"message", "type", "param", "code"}
        log = capfd.readouterr().err
        assert "Traceback" not in log
        assert log.count('"status":200') == 1

    async def test_a_stream_that_was_stopped_is_served_and_not_stored(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for finish in ("length", "content_filter", "abort"):
                upstream.stream([delta("half"), delta(finish=finish), "[DONE]"])
                _, chunks = await streamed(gateway, finish)
                assert chunks[-1] == "[DONE]"
                await gateway.idle()
                assert (await streamed(gateway, finish))[0].headers["x-cache"] == "MISS"

    async def test_one_choice_of_three_that_was_cut_keeps_the_whole_answer_out(self) -> None:
        parts = [delta(f"t{index}", index=index) for index in (2, 0, 1)]
        parts += [delta(index=index, finish="length" if index == 1 else "stop") for index in range(3)]
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([*parts, "[DONE]"])
            await streamed(gateway, n=3)
            await gateway.idle()
            assert (await streamed(gateway, n=3))[0].headers["x-cache"] == "MISS"

    async def test_a_stream_without_any_choice_is_a_failure_and_not_an_empty_answer(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for body in list[dict[str, Any]](({"choices": []}, {"choices": None}, {})):
                empty = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", **body}
                upstream.stream([empty, "[DONE]"])
                reply, chunks = await streamed(gateway, f"without {body}")
                assert reply.status_code == 502 or "error" in chunks[-1]
                assert (await streamed(gateway, f"without {body}"))[0].headers["x-cache"] == "MISS"

    async def test_bad_input_to_a_stream_is_a_status_and_json_never_an_event(self) -> None:
        bad: list[tuple[dict[str, Any], int]] = [
            ({"messages": "hi"}, 400),
            ({"model": "nope"}, 404),
            ({"model": 5}, 400),
        ]
        judged_by_the_server: list[tuple[dict[str, Any], int]] = [
            ({"messages": []}, 400),
            ({"max_tokens": 1 << 40}, 400),
        ]
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            too_long = {"error": {"message": "longer than the context", "code": 400}}
            upstream.reply_json(too_long, status=400, times=len(judged_by_the_server))
            for fields, status in bad + judged_by_the_server:
                async with gateway.chat_stream(**fields) as reply:
                    body = json.loads(await reply.aread())
                assert (fields, reply.status_code) == (fields, status)
                assert reply.headers["content-type"] == "application/json"
                assert set(body["error"]) == {"message", "type", "param", "code"}

    async def test_a_whole_answer_to_who_asked_for_a_stream_is_no_fault_of_the_gateway(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.reply(b"<html>busy</html>", content_type="text/html")
            async with gateway.chat_stream() as reply:
                body = json.loads(await reply.aread())
            assert (reply.status_code, reply.headers["content-type"]) == (502, "application/json")
            assert "busy" not in body["error"]["message"]

    async def test_an_sdk_that_times_out_and_retries_leaves_nothing_running(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([delta("a"), HANG], times=3)
            async with official_sdk(gateway, timeout=0.4, max_retries=2) as sdk:
                for _ in range(3):
                    stream = await sdk.chat.completions.create(
                        model="m1", messages=[{"role": "user", "content": "q"}], stream=True
                    )
                    with pytest.raises(Exception, match=r"(?i)time|deadline|read"):
                        async for _ in stream:
                            pass
            for call in upstream.calls:
                await call.wait_closed(10)
            await eventually(lambda: set(gateway.plane.pools.in_flight().values()) == {0})
            reply, chunks = await streamed(gateway)
            assert (reply.headers["x-cache"], chunks[-1]) == ("MISS", "[DONE]")
            assert len(upstream.calls) == 4

    async def test_a_client_that_left_half_way_leaves_no_entry_behind_and_the_next_one_is_kept(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([delta("half"), HANG])
            async with gateway.chat_stream() as reply:
                async for _ in reply.aiter_lines():
                    break
            await upstream.calls[0].wait_closed(10)
            await gateway.idle()
            outcomes = [(await streamed(gateway))[0].headers["x-cache"] for _ in range(5)]
            assert outcomes == ["MISS", *["HIT-EXACT"] * 4]


async def test_a_client_that_reads_slowly_gets_every_chunk() -> None:
    body = chat_body(stream=True)
    words = [f"word-{number:03} " * 100 for number in range(200)]
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream([*(delta(word) for word in words), delta(finish="stop"), "[DONE]"])
        async with connection(gateway, receive_buffer=4096) as (reader, writer):
            writer.write(post_head(gateway, connection="close", content_length=str(len(body))) + body)
            await upstream.wait_calls(1)
            await eventually(lambda: upstream.calls[0].answered_s is not None)  # all is sent, little is read
            heard = bytearray()
            while piece := await reader.read(1024):
                heard += piece
    assert all(f"word-{number:03} ".encode() in heard for number in range(200))
    assert b"data: [DONE]" in heard
