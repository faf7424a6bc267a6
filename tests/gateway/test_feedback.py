"""A report that an answer was wrong: it is not given to that question again, by any worker, whatever is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from auth import Policy
from tests.cache.prepared import prepared_model
from tests.cache.replicas import master_and_replica
from tests.running import RunningGateway, answer_of, running_gateway
from tests.scripted import ScriptedUpstream, completion
from tests.valkey import Valkey, eventually, running_valkey

SEMANTIC = {
    "embedder": {"kind": "onnx", "model": str(prepared_model())},
    "semantic_deadline_ms": 5000,
    "audits": {"shadow_share": 0, "served_share": 0},
}
ASKED = "What is the capital city of France?"
SAME = "What's the capital city of France?"


async def ask(gateway: RunningGateway, text: str, **more: Any) -> httpx.Response:
    reply = await gateway.chat(text, **more)
    await gateway.idle()
    return reply


async def report(gateway: RunningGateway, reply: httpx.Response, *, key: str | None = None) -> httpx.Response:
    return await post(gateway, {"request_id": request_id(reply), "rating": "wrong"}, key=key)


async def post(gateway: RunningGateway, body: object, *, key: str | None = None) -> httpx.Response:
    return await gateway.client.post(
        "/v1/cache/feedback", json=body, headers={"authorization": f"Bearer {key or gateway.key}"}
    )


def request_id(reply: httpx.Response) -> str:
    return str(reply.headers["x-echogate-request-id"])


@asynccontextmanager
async def two_workers() -> AsyncIterator[tuple[RunningGateway, RunningGateway, ScriptedUpstream]]:
    async with (
        running_valkey() as valkey,
        ScriptedUpstream() as upstream,
        running_gateway(upstream, valkey=valkey, cache=SEMANTIC) as one,
        running_gateway(upstream, valkey=valkey, cache=SEMANTIC) as other,
    ):
        yield one, other, upstream


async def until_not(
    gateway: RunningGateway, text: str, outcome: str, *, within_s: float = 1.0
) -> httpx.Response:
    """Asked again and again, without storing; fails where the outcome is still the same after a second."""
    only = {"cache-control": "only-if-cached"}
    async with asyncio.timeout(within_s):
        while (reply := await gateway.chat(text, headers=only)).headers["x-cache"] == outcome:
            pass
    return reply


async def test_a_wrong_exact_answer_is_never_served_again_on_any_worker_within_a_second() -> None:
    async with two_workers() as (one, other, upstream):
        upstream.reply_json(completion("Lyon"), times=2)
        await ask(one, ASKED)
        hit = await ask(one, ASKED)
        assert (await ask(other, ASKED)).headers["x-cache"] == "HIT-EXACT"
        assert (await report(one, hit)).json()["blocked"] is True
        await until_not(other, ASKED, "HIT-EXACT")
        # The model says the same wrong thing again: it is given to who asked, and not kept.
        assert answer_of(await ask(one, ASKED)) == "Lyon"
        assert (await ask(one, ASKED)).headers["x-cache"] == "MISS"
        # Another answer is kept.
        assert (await ask(other, ASKED)).headers["x-cache"] == "HIT-EXACT"


async def test_a_wrong_similar_answer_is_not_given_to_that_question_again_and_stays_the_others() -> None:
    async with two_workers() as (one, other, _):
        await ask(one, ASKED)
        hit = await ask(one, SAME)
        assert hit.headers["x-cache"] == "HIT-SEMANTIC"
        await report(one, hit)
        await until_not(other, SAME, "HIT-SEMANTIC")
        assert (await one.chat(SAME, headers={"cache-control": "only-if-cached"})).headers[
            "x-cache-reason"
        ] == ("blocked")
        assert (await ask(one, ASKED)).headers["x-cache"] == "HIT-EXACT"


async def test_what_is_blocked_stays_so_after_a_restart() -> None:
    async with running_valkey() as valkey, ScriptedUpstream() as upstream:
        async with running_gateway(upstream, valkey=valkey, cache=SEMANTIC) as gateway:
            await ask(gateway, ASKED)
            await report(gateway, await ask(gateway, SAME))
        async with running_gateway(upstream, valkey=valkey, cache=SEMANTIC) as gateway:
            assert (await ask(gateway, SAME)).headers["x-cache-reason"] == "blocked"


async def test_the_reply_says_whether_a_replica_has_it_and_it_is_in_force_when_none_has() -> None:
    with master_and_replica() as (master, replica):
        valkey = cast(
            Valkey, SimpleNamespace(url=f"redis://{master.endpoint}")
        )  # its address is all that is used
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, valkey=valkey, cache=SEMANTIC) as gateway,
        ):
            await ask(gateway, ASKED)
            reply = await report(gateway, await ask(gateway, SAME))
            assert (reply.status_code, reply.json()["replicated"]) == (200, True)
            replica.hang()
            reply = await report(gateway, await ask(gateway, ASKED))
            assert (reply.status_code, reply.json()["replicated"]) == (202, False)
            replica.resume()
            assert reply.json()["blocked"] is True
            assert (await ask(gateway, ASKED)).headers["x-cache"] == "MISS"


async def test_a_fresh_answer_can_be_reported_too() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        assert (await report(gateway, await ask(gateway, ASKED))).json()["blocked"] is True
        assert (await ask(gateway, ASKED)).headers["x-cache"] == "MISS"


async def test_another_tenant_cannot_report_it_nor_learn_that_it_was_asked() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        reply = await ask(gateway, ASKED)
        key = await gateway.new_key("umbrella")
        refused = await report(gateway, reply, key=key)
        unknown = await post(gateway, {"request_id": "req_unknown", "rating": "wrong"}, key=key)
        assert refused.status_code == unknown.status_code == 404
        assert refused.json() == unknown.json()
        assert (await ask(gateway, ASKED)).headers["x-cache"] == "HIT-EXACT"


async def test_a_service_cannot_report_anothers_where_the_cache_is_that_narrow() -> None:
    cache = {"scope": "service"}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=cache) as gateway:
        reply = await ask(gateway, ASKED)
        assert (await report(gateway, reply, key=await gateway.new_key(service="other"))).status_code == 404
        assert (await report(gateway, reply)).status_code == 200


async def test_a_key_without_the_scope_cannot_report() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(policy=Policy(scopes=frozenset({"chat"})))
        assert (await report(gateway, await ask(gateway, ASKED, key=key), key=key)).status_code == 403


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"request_id": "req_1"},
        {"request_id": 1, "rating": "wrong"},
        {"request_id": "r", "rating": "right"},
    ],
)
async def test_what_is_no_report_is_refused(body: object) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        assert (await post(gateway, body)).status_code == 400


async def test_reports_are_limited() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        statuses = [(await post(gateway, {})).status_code for _ in range(31)]
    assert statuses == [400] * 30 + [429]


async def test_reports_of_three_keys_stop_similar_answers_in_the_namespace() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED)
        for _ in range(3):
            key = await gateway.new_key()
            await report(gateway, await ask(gateway, ASKED, key=key), key=key)
            await ask(gateway, ASKED)
        await eventually(
            lambda: gateway.plane.cache.standing("acme/default/m1").state == "tripped", within_s=10
        )
        assert gateway.plane.cache.standing("acme/default/m1").reason == "reported-wrong"
        assert (await ask(gateway, SAME)).headers["x-cache-reason"] == "tripped"
        assert (await ask(gateway, ASKED)).headers["x-cache"] == "HIT-EXACT"
