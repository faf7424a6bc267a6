"""Streams whose model server falls silent: comments keep them alive, in a form that every kind of client survives."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.data.wire import Reply
from tests.cases.speaking import chat_body, connection, official_sdk, post_head
from tests.running import RunningGateway, running_gateway, streamed_text
from tests.scripted import HANG, RESET, Part, ScriptedUpstream, delta
from tests.valkey import eventually

OFTEN = {"stream_keep_alive_s": 0.1}
# Silent for longer than a comment waits, twice.
SILENT: list[Part] = [delta("a"), 0.35, delta("b"), 0.35, delta(finish="stop"), "[DONE]"]


async def read(gateway: RunningGateway, content: str = "q") -> str:
    async with gateway.chat_stream(content) as reply:
        assert reply.status_code == 200
        return (await reply.aread()).decode()


def by_lines(body: str) -> str:
    """As people write it who have no library: what is no `data:` line is passed over."""
    text = ""
    for line in body.splitlines():
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        text += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    return text


def by_the_standard(body: str) -> str:
    """As old official SDKs do it: an empty line dispatches what was gathered, an id alone would be an event."""
    text, last_id = "", None
    data: list[str] = []
    for line in body.split("\n"):
        if line == "":
            if data or last_id is not None:
                joined = "\n".join(data)
                if joined != "[DONE]":
                    text += json.loads(joined)["choices"][0]["delta"].get("content") or ""
            data = []
        elif not line.startswith(":"):
            field, _, value = line.partition(":")
            data += [value.removeprefix(" ")] if field == "data" else []
            last_id = value if field == "id" else last_id
    return text


@pytest.mark.parametrize("parse", [by_lines, by_the_standard])
async def test_a_silent_stream_gets_comments_which_no_reader_takes_for_events(
    parse: Callable[[str], str],
) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, server=OFTEN) as gateway:
        upstream.stream(SILENT)
        body = await read(gateway)
        assert body.count(": keep-alive\n\n") >= 2
        assert not any(line.startswith(("id:", "event:", "retry:")) for line in body.splitlines())
        assert parse(body) == "ab"
        replayed = await read(gateway)
        assert "keep-alive" not in replayed
        assert parse(replayed) == "ab"


async def test_the_official_sdk_does_not_notice_them() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, server=OFTEN) as gateway:
        upstream.stream(SILENT)
        async with official_sdk(gateway) as sdk:
            asked: Any = [{"role": "user", "content": "q"}]
            stream = await sdk.chat.completions.create(model="m1", messages=asked, stream=True)
            assert [chunk.choices[0].delta.content async for chunk in stream] == ["a", "b", None]


async def test_clients_that_know_nothing_but_data_lines_can_do_without_them() -> None:
    server = {"stream_keep_alive_s": None}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, server=server) as gateway:
        upstream.stream(SILENT)
        lines = [line for line in (await read(gateway)).splitlines() if line]
        assert all(line.startswith("data: ") for line in lines)


async def test_a_stream_that_is_never_silent_for_so_long_gets_none() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream(SILENT)  # the usual 15 seconds
        assert "keep-alive" not in await read(gateway)


async def test_before_the_servers_status_is_known_nothing_is_said() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, server=OFTEN) as gateway:
        upstream.script(_refuse_late)
        async with gateway.chat_stream() as reply:
            error = json.loads(await reply.aread())["error"]
        assert (reply.status_code, error["message"]) == (400, "too late")


async def test_the_end_and_an_error_come_after_the_comments_and_nothing_after_them() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, server=OFTEN) as gateway:
        upstream.stream([delta("a"), 0.35, RESET])
        body = await read(gateway)
    assert ": keep-alive\n\n" in body
    assert list(json.loads(body.rstrip().rpartition("\n\n")[2].removeprefix("data: "))) == ["error"]


async def test_comments_go_to_nobody_who_has_left_and_leave_nothing_behind() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, server=OFTEN) as gateway:
        body = chat_body(stream=True)
        upstream.stream([delta("a"), HANG])
        async with connection(gateway) as (reader, writer):
            writer.write(post_head(gateway, content_length=str(len(body))) + body)
            async with asyncio.timeout(20):
                await reader.readuntil(b": keep-alive\n\n")
        await eventually(lambda: gateway.plane.in_flight == 0)
        await eventually(_no_reply_is_held)


async def test_a_compressed_stream_is_kept_alive_too() -> None:
    server = OFTEN | {"compression": "streams"}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, server=server) as gateway:
        upstream.stream(SILENT)
        async with gateway.chat_stream(headers={"accept-encoding": "gzip"}) as reply:
            packed = b"".join([part async for part in reply.aiter_raw()])
        body = gzip.decompress(packed).decode()
    assert body.count(": keep-alive\n\n") >= 2
    assert streamed_text(body.replace(": keep-alive\n\n", "")) == "ab"


def _no_reply_is_held() -> bool:
    gc.collect()
    return not any(isinstance(each, Reply) for each in gc.get_objects())


async def _refuse_late(_: Any, wire: Any) -> None:
    await asyncio.sleep(0.35)
    await wire.json({"error": {"message": "too late"}}, status=400)
