"""What the settings of a pool do to requests: timeouts, affinity, capabilities, fields for servers that know them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from auth import Policy, Priority
from gateway.settings.reading import Settings
from tests.running import RunningGateway, events, running_gateway
from tests.scripted import HANG, ScriptedUpstream, delta

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
PAST_CACHE = {"x-cache-mode": "off"}


@asynccontextmanager
async def over(
    folder: Path, *upstreams: ScriptedUpstream, each: tuple[dict[str, Any], ...] = (), **pool: Any
) -> AsyncIterator[RunningGateway]:
    """One pool `m1`; `each` adds to its members in turn."""
    members = [
        {"url": upstream.base_url, "name": f"m1-{number}", "model": "m", "revision": "r1"}
        for number, upstream in enumerate(upstreams, 1)
    ]
    for member, more in zip(members, each, strict=False):
        member.update(more)
    settings = Settings.model_validate(
        {
            "pools": {"m1": {"members": members, **pool}},
            "cache": {"embedder": {"kind": "none"}},
            "store": {"deadline_ms": 2000},
            "data_dir": folder,
        }
    )
    async with running_gateway(settings=settings) as gateway:
        yield gateway


async def test_silence_between_chunks_is_borne_as_long_as_the_pool_says(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as upstream,
        over(tmp_path, upstream, timeouts={"idle_timeout_s": 0.2}) as gateway,
    ):
        upstream.stream([delta("one"), HANG])
        began_s = time.monotonic()
        async with gateway.chat_stream() as reply:
            seen = events((await reply.aread()).decode())
        assert "error" in seen[-1]
        assert time.monotonic() - began_s < 10


async def test_a_request_may_take_as_long_as_the_pool_says(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as upstream,
        over(tmp_path, upstream, timeouts={"request_timeout_s": 0.3}) as gateway,
    ):
        upstream.hang()
        reply = await gateway.chat()
        assert (reply.status_code, reply.json()["error"]["code"]) == (504, "upstream_timeout")


async def test_requests_of_a_session_stay_together(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as a,
        ScriptedUpstream() as b,
        ScriptedUpstream() as c,
        over(tmp_path, a, b, c) as gateway,
    ):
        for session in ("one", "two", "three"):
            headers = PAST_CACHE | {"x-echogate-session": session}
            chosen = {
                (await gateway.chat(f"q{number}", headers=headers)).headers["x-echogate-backend"]
                for number in range(6)
            }
            assert len(chosen) == 1


async def test_pictures_go_where_they_are_understood(tmp_path: Path) -> None:
    sees = {"capabilities": {"modalities": ["image"]}}
    async with (
        ScriptedUpstream() as a,
        ScriptedUpstream() as b,
        over(tmp_path, a, b, each=({}, sees)) as gateway,
    ):
        parts = [{"type": "text", "text": "What is this?"}, IMAGE]
        chosen = {
            (await gateway.chat(parts, headers=PAST_CACHE)).headers["x-echogate-backend"] for _ in range(8)
        }
        assert chosen == {"m1-2"}


async def test_fields_are_added_only_for_servers_that_know_them(tmp_path: Path) -> None:
    knows = {"capabilities": {"features": ["priority", "cache_salt"]}, "tier": 0}
    async with (
        ScriptedUpstream() as a,
        ScriptedUpstream() as b,
        over(tmp_path, a, b, each=(knows, {"tier": 1})) as gateway,
    ):
        batch = await gateway.new_key("other", policy=Policy(priority=Priority.BATCH))
        await gateway.chat("one", headers=PAST_CACHE)
        await gateway.chat("two", headers=PAST_CACHE, key=batch)
        one, two = (call.json for call in a.calls)
        assert (one["priority"], two["priority"]) == (1, 2)
        assert one["cache_salt"] != two["cache_salt"]
        await a.stop()
        await gateway.chat("three", headers=PAST_CACHE)
        assert not {"priority", "cache_salt"} & b.calls[-1].json.keys()


async def test_what_is_added_for_a_server_divides_no_answers(tmp_path: Path) -> None:
    knows = {"capabilities": {"features": ["priority", "cache_salt"]}}
    async with ScriptedUpstream() as upstream, over(tmp_path, upstream, each=(knows,)) as gateway:
        await gateway.chat()
        await gateway.idle()
        assert (await gateway.chat()).headers["x-cache"] == "HIT-EXACT"


async def test_a_pool_nobody_of_which_can_be_asked_shows_in_readiness(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, over(tmp_path, upstream) as gateway:
        assert gateway.plane.readiness().state == "ok"
        await upstream.stop()
        await gateway.chat()
        assert gateway.plane.readiness().reasons == ("no usable member serves the model 'm1'",)
