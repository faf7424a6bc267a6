"""What goes wrong arrives as the SDK's own typed errors, and its own retries help where they can."""

from __future__ import annotations

from collections.abc import AsyncIterator

import openai
import pytest
import pytest_asyncio

from tests.e2e.asking import PATIENT, question, sdk
from tests.running import RunningGateway, running_gateway


@pytest_asyncio.fixture
async def gateway(llamas: tuple[str, str]) -> AsyncIterator[RunningGateway]:
    async with running_gateway(*llamas, server={"body_limit_mib": 1}, **PATIENT) as running:
        yield running


async def test_a_wrong_key(gateway: RunningGateway) -> None:
    async with sdk(gateway, key="eg-abc-wrong", max_retries=2) as client:
        with pytest.raises(openai.AuthenticationError) as raised:
            await client.chat.completions.create(**question())
    assert raised.value.status_code == 401
    assert raised.value.code == "invalid_api_key"
    assert raised.value.response.headers["x-should-retry"] == "false"


async def test_an_unknown_model(gateway: RunningGateway) -> None:
    async with sdk(gateway, max_retries=2) as client:
        with pytest.raises(openai.NotFoundError) as raised:
            await client.chat.completions.create(**question(model="m3"))
    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


async def test_a_body_that_is_too_large(gateway: RunningGateway) -> None:
    async with sdk(gateway) as client:
        with pytest.raises(openai.APIStatusError) as raised:
            await client.chat.completions.create(**question("long " * 300_000))
    assert raised.value.status_code == 413
    assert raised.value.code == "request_too_large"


async def test_a_field_of_the_wrong_type(gateway: RunningGateway) -> None:
    async with sdk(gateway) as client:
        with pytest.raises(openai.BadRequestError) as raised:
            await client.chat.completions.create(**question(messages="hello"))
    assert raised.value.param == "messages"


async def test_a_limit_that_is_reached(gateway: RunningGateway) -> None:
    key = await gateway.new_key(rate_per_s=0.1, burst=1)
    async with sdk(gateway, key=key) as client:
        await client.chat.completions.create(**question(max_tokens=2))
        with pytest.raises(openai.RateLimitError) as raised:
            await client.chat.completions.create(**question(max_tokens=2))
    assert raised.value.code == "rate_limit_exceeded"
    assert 0 < int(raised.value.response.headers["retry-after-ms"]) <= 10_000


async def test_the_sdks_own_retry_waits_for_the_limit_and_succeeds(gateway: RunningGateway) -> None:
    key = await gateway.new_key(rate_per_s=1, burst=2)
    async with sdk(gateway, key=key, max_retries=2) as client:
        ask = client.chat.completions.with_raw_response.create
        replies = [await ask(**question()) for _ in range(4)]
    assert [reply.status_code for reply in replies] == [200] * 4
    assert sum(reply.retries_taken for reply in replies) >= 1
