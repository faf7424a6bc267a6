"""Keys and limits that leaked or held wrongly in other gateways. What concerns the limiter alone is in
tests/contracts/test_limit_store.py (C100, C102, C121, C122) and tests/e2e/test_limits_race.py (C101, C103)."""

from __future__ import annotations

import asyncio
import json
import time
from email.utils import formatdate
from typing import Any

import httpx
import pytest

from auth import KeyRef, Limits, Policy
from gateway.host.control import KeyChanged
from tests.cases.speaking import official_sdk
from tests.running import running_gateway
from tests.scripted import HANG, ScriptedUpstream, delta


class TestCharging:
    """C104, C105: the one written rule of what is charged (docs/api.md, "Limits")."""

    async def test_a_call_refused_by_one_limit_costs_nothing_of_another(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            key = await gateway.new_key(limits=Limits(requests_per_min=2, concurrent=1))
            headers = {"authorization": f"Bearer {key}"}
            upstream.stream([delta("a"), HANG])
            async with gateway.chat_stream("first", headers=headers) as reply:
                await anext(reply.aiter_lines())
                refused = await gateway.chat("second", key=key)
                assert "key concurrent requests" in refused.json()["error"]["message"]
            await gateway.idle()
            assert (await gateway.chat("third", key=key)).status_code == 200

    async def test_an_unknown_key_is_charged_to_nobody(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            key = await gateway.new_key(limits=Limits(requests_per_min=1))
            for _ in range(5):
                assert (await gateway.chat(key=key[:-1] + "!")).status_code == 401
            assert (await gateway.chat(key=key)).status_code == 200

    @pytest.mark.parametrize("body", [b"{", b'{"model": "nobody", "messages": []}', b'{"model": "m1"}'])
    async def test_what_is_refused_as_wrong_costs_a_request_and_no_tokens(self, body: bytes) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            limits = Limits(requests_per_min=2, tokens_per_min=1000)
            key = await gateway.new_key(limits=limits)
            assert (await gateway.post(body, key=key)).status_code in (400, 404)
            reply = await gateway.chat(key=key, max_tokens=1)
            assert reply.headers["x-ratelimit-remaining-requests"] == "0"
            reserved = 1 + -(-len(reply.request.content) // 3)
            assert int(reply.headers["x-ratelimit-remaining-tokens"]) == 1000 - reserved

    async def test_a_call_that_no_backend_answered_costs_a_request_and_no_tokens(self) -> None:
        async with running_gateway("http://127.0.0.1:9") as gateway:
            key = await gateway.new_key(limits=Limits(requests_per_min=100, tokens_per_min=600))
            for _ in range(5):
                assert (await gateway.chat(key=key, max_tokens=500)).status_code >= 500
                await gateway.idle()

    async def test_hits_burn_requests_and_no_tokens(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.words = 300
            limits = Limits(requests_per_min=12, tokens_per_min=2000)
            key = await gateway.new_key(limits=limits)
            await gateway.chat("the same")
            await gateway.idle()
            replies = [await gateway.chat("the same", key=key) for _ in range(10)]
        assert {reply.headers["x-cache"] for reply in replies} == {"HIT-EXACT"}
        assert int(replies[-1].headers["x-ratelimit-remaining-requests"]) <= 3

    async def test_hits_burn_tokens_where_a_deployment_says_so(self) -> None:
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, limits={"charge_hits": True}) as gateway,
        ):
            key = await gateway.new_key(limits=Limits(tokens_per_min=1000))
            upstream.words = 600
            await gateway.chat("the same", max_tokens=1)
            await gateway.idle()
            assert (await gateway.chat("the same", key=key, max_tokens=1)).status_code == 200
            await gateway.idle()
            refused = await gateway.chat("the same", key=key, max_tokens=500)
        assert "key tokens per minute" in refused.json()["error"]["message"]


class TestWaiting:
    """C106, C107, C108: a 429 or 503 says when to come back, and coming back too early is cheap."""

    async def test_a_refusal_says_in_whole_seconds_when_the_next_one_fits(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            key = await gateway.new_key(limits=Limits(requests_per_min=60))
            refused = await gateway.chat("q", key=key)
            while refused.status_code != 429:
                refused = await gateway.chat("q", key=key)
            wait_ms = int(refused.headers["retry-after-ms"])
            assert 0 < wait_ms <= 1000
            assert refused.headers["retry-after"] == str(-(-wait_ms // 1000))
            assert refused.headers["x-ratelimit-remaining-requests"] == "0"
            await asyncio.sleep(wait_ms / 1000)  # the very wait that was told
            assert (await gateway.chat("q", key=key)).status_code == 200

    async def test_the_official_sdk_waits_as_told_and_gets_through(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            gateway.key = await gateway.new_key(limits=Limits(requests_per_s=10, burst=1))
            async with official_sdk(gateway) as sdk:
                messages: Any = [{"role": "user", "content": "q"}]
                retrying = sdk.with_options(max_retries=2)
                for _ in range(4):
                    await retrying.chat.completions.create(model="m1", messages=messages)

    async def test_while_keys_cannot_be_checked_it_says_when_to_come_back(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            await gateway.valkey.kill()
            reply = await gateway.chat()
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")

    @pytest.mark.parametrize(
        ("sent", "expected"),
        [
            ("7", "7"),
            ("-1", None),
            ("0", None),
            ("abc", None),
            ("1e3", None),
            ("99999999999", None),
            ("", None),
        ],
    )
    async def test_what_the_model_server_asks_for_is_passed_on_if_it_is_a_wait(
        self, sent: str, expected: str | None
    ) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.reply_json({"error": {"message": "slow"}}, status=429, times=4, retry_after=sent)
            reply = await gateway.chat()
        assert (reply.status_code, reply.headers.get("retry-after")) == (429, expected)

    async def test_a_date_becomes_seconds(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            soon = formatdate(time.time() + 90, usegmt=True)
            upstream.reply_json({"error": {"message": "slow"}}, status=429, times=4, retry_after=soon)
            reply = await gateway.chat()
        assert 80 <= int(reply.headers["retry-after"]) <= 90

    async def test_a_storm_of_refused_calls_reaches_no_backend(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            key = await gateway.new_key(limits=Limits(requests_per_min=1))
            await gateway.chat("q", key=key)
            refused = await asyncio.gather(*[gateway.chat(f"q{n}", key=key) for n in range(50)])
            assert {reply.status_code for reply in refused} == {429}
            assert len(upstream.calls) == 1
            assert (await gateway.chat("another tenant's")).status_code == 200


class TestRevocation:
    """C109: a deleted key is refused at once, also where nobody tells the worker."""

    async def test_a_deleted_key_is_refused_within_a_second_without_any_nudge(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            key = await gateway.new_key()
            assert (await gateway.chat(key=key)).status_code == 200
            await gateway.directory.delete(KeyRef(key.split("-")[1]))
            deadline = time.monotonic() + 1.5
            while (await gateway.chat(key=key)).status_code != 401:
                assert time.monotonic() < deadline

    async def test_with_the_nudge_it_is_refused_at_the_next_call_and_a_stream_that_runs_ends_well(
        self,
    ) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            key = await gateway.new_key()
            upstream.stream([delta("a"), 0.3, delta("b"), delta(finish="stop"), "[DONE]"])
            async with gateway.chat_stream(headers={"authorization": f"Bearer {key}"}) as reply:
                lines = reply.aiter_lines()
                await anext(lines)
                await gateway.directory.delete(KeyRef(key.split("-")[1]))
                gateway.control(KeyChanged(key.split("-")[1]))
                assert (await gateway.chat("another", key=key)).status_code == 401
                assert [line async for line in lines if line][-1] == "data: [DONE]"


class TestRights:
    """C115, C118, C119: a key reaches what it may and nothing else."""

    FIELDS = ("api_base", "base_url", "api_key", "headers", "extra_headers", "proxy", "endpoint")

    @pytest.mark.parametrize("place", ["top", "extra_body", "metadata"])
    async def test_no_field_makes_the_gateway_call_another_address(self, place: str) -> None:
        async with (
            ScriptedUpstream() as evil,
            ScriptedUpstream() as upstream,
            running_gateway(upstream) as gateway,
        ):
            elsewhere = {"x-forwarded-host": evil.base_url[7:], "host": evil.base_url[7:]}
            for name in self.FIELDS:
                fields: dict[str, Any] = {name: f"{evil.base_url}/v1"}
                body: dict[str, Any] = {"model": "m1", "messages": [{"role": "user", "content": name}]}
                body |= fields if place == "top" else {place: fields}
                await gateway.post(json.dumps(body).encode(), headers=elsewhere)
            assert evil.requests == []

    async def test_the_models_a_key_may_use_are_asked_for_before_the_cache_is(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            narrow = await gateway.new_key(policy=Policy(models=("m1",)))
            await gateway.chat(model="m2")
            await gateway.idle()
            for model in ("m2", "M1", "m1 ", "./m1", "m2/../m1"):
                refused = await gateway.chat(model=model, key=narrow)
                assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
                assert "x-cache" not in refused.headers

    @pytest.mark.parametrize(
        "path", ["/admin/keys", "/admin/usage", "/metrics", "/docs", "/openapi.json", "/debug"]
    )
    async def test_nothing_of_the_admin_plane_is_on_the_data_plane(self, path: str) -> None:
        async with running_gateway("http://127.0.0.1:9") as gateway:
            for spelling in (path, f"{path}/", f"/{path}", path.upper(), path.replace("/", "/%2e/", 1)):
                for method in ("GET", "POST"):
                    reply = await gateway.client.request(
                        method,
                        gateway.base_url + spelling,
                        headers={"authorization": f"Bearer {gateway.key}"},
                    )
                    assert reply.status_code == 404, (method, spelling)


class TestFailedLogins:
    """C112: whatever the credential is, it is a 401, is told by its address, and is in no log."""

    async def test_failed_logins_are_told_with_address_and_key(self) -> None:
        told: list[tuple[str, str | None]] = []
        async with running_gateway(
            "http://127.0.0.1:9", on_failed_login=lambda *who: told.append(who)
        ) as gateway:
            key_id = gateway.key.split("-")[1]
            for key in (gateway.key[:-1] + "!", "sk-other", "eg-" + "z" * 12 + "-" + "x" * 43):
                assert (await gateway.chat(key=key)).status_code == 401
            assert (await gateway.client.get("/v1/models")).status_code == 401
            assert (await gateway.client.get("/v1/me")).status_code == 401
        assert told == [("127.0.0.1", who) for who in (key_id, None, "z" * 12, None, None)]


async def test_a_failed_login_is_no_reason_to_wait(capfd: pytest.CaptureFixture[str]) -> None:
    async with running_gateway("http://127.0.0.1:9") as gateway:
        wrong = gateway.key[:-8] + "AAAAAAAA"
        reply: httpx.Response = await gateway.chat(key=wrong)
    assert reply.headers["x-should-retry"] == "false"
    assert wrong not in reply.text + capfd.readouterr().err
