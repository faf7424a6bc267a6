"""`/v1/models`: what a key may use, whatever the models are called."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from auth import Policy
from gateway.settings.reading import Settings
from tests.running import RunningGateway, running_gateway

NAMES = ["m1", "meta-llama/Llama-3.1-8B", "org/deep/er:v1", "mö del"]
SECTIONS: dict[str, Any] = {
    "pools": {
        name: [{"url": "http://127.0.0.1:9", "name": f"member-{at}", "model": "m", "revision": "r1"}]
        for at, name in enumerate(NAMES)
    },
    "cache": {"embedder": {"kind": "none"}},
    "store": {"deadline_ms": 5000},
}
SETTINGS = Settings(**SECTIONS)


async def get(
    gateway: RunningGateway, path: str, *, method: str = "GET", key: str | None = None
) -> httpx.Response:
    return await gateway.client.request(
        method, path, headers={"authorization": f"Bearer {key or gateway.key}"}
    )


async def test_all_are_listed_and_each_is_found_by_its_name_encoded_or_not() -> None:
    async with running_gateway(settings=SETTINGS) as gateway:
        listed = (await get(gateway, "/v1/models")).json()
        assert listed["object"] == "list"
        assert {each["id"] for each in listed["data"]} == set(NAMES)
        for path, name in (
            ("/v1/models/meta-llama/Llama-3.1-8B", NAMES[1]),
            ("/v1/models/meta-llama%2FLlama-3.1-8B", NAMES[1]),
            ("/models/meta-llama/Llama-3.1-8B/", NAMES[1]),
            ("/v1/models/org%2Fdeep/er%3Av1", NAMES[2]),
            ("/v1/models/m%C3%B6%20del", NAMES[3]),
            ("/openai/models/m1?api-version=2024-06-01", NAMES[0]),
        ):
            assert (await get(gateway, path)).json()["id"] == name
        async with openai.AsyncOpenAI(base_url=gateway.base_url + "/v1", api_key=gateway.key) as sdk:
            for name in NAMES:
                assert (await sdk.models.retrieve(name)).id == name


async def test_a_key_sees_what_it_may_use_and_of_others_not_that_they_are_there() -> None:
    async with running_gateway(settings=SETTINGS) as gateway:
        key = await gateway.new_key(service="few", policy=Policy(models=("m1", "org/*")))
        listed = (await get(gateway, "/v1/models", key=key)).json()["data"]
        assert {each["id"] for each in listed} == {"m1", "org/deep/er:v1"}
        hidden = await get(gateway, "/v1/models/meta-llama/Llama-3.1-8B", key=key)
        absent = await get(gateway, "/v1/models/meta-llama/Llama-3.1-8C", key=key)
        assert hidden.status_code == absent.status_code == 404
        assert hidden.json()["error"]["code"] == "model_not_found"
        assert hidden.text.replace("8B", "8C") == absent.text


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m1", "/v1/models/none"])
async def test_head_is_get_without_a_body_and_nothing_else_is_answered(path: str) -> None:
    async with running_gateway(settings=SETTINGS) as gateway:
        got, head = [await get(gateway, path, method=method) for method in ("GET", "HEAD")]
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-length"] == str(len(got.content))
        assert (await get(gateway, path, method="DELETE")).status_code == 405


async def test_without_the_scope_or_a_key_nothing_is_listed() -> None:
    async with running_gateway(settings=SETTINGS) as gateway:
        key = await gateway.new_key(service="chats", policy=Policy(scopes=frozenset({"chat"})))
        assert (await get(gateway, "/v1/models", key=key)).status_code == 403
        assert (await gateway.client.get("/v1/models")).status_code == 401
