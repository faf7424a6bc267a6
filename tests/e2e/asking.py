"""The official OpenAI SDK pointed at a gateway, and the questions it asks."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI, OpenAI

from tests.running import RunningGateway

# SmolLM2 answers these in a sentence. As int8 vectors SAME is at 0.976 to ASKED, and OPPOSITE at 0.995.
ASKED = "How long is the flight from London to Tokyo?"
SAME = "How long does the flight from London to Tokyo take?"
OPPOSITE = "How long is the flight from Tokyo to London?"

# Parts share two cores with the models here: a late store or embedder would be a miss, which is not the matter.
PATIENT: dict[str, Any] = {"store": {"deadline_ms": 5000}}


def question(text: str = ASKED, **fields: Any) -> dict[str, Any]:
    return {"model": "m1", "temperature": 0, "messages": [{"role": "user", "content": text}]} | fields


def sdk(gateway: RunningGateway, *, key: str | None = None, max_retries: int = 0) -> AsyncOpenAI:
    return AsyncOpenAI(
        base_url=f"{gateway.base_url}/v1", api_key=key or gateway.key, max_retries=max_retries, timeout=60
    )


def blocking_sdk(gateway: RunningGateway) -> OpenAI:
    return OpenAI(base_url=f"{gateway.base_url}/v1", api_key=gateway.key, max_retries=0, timeout=60)
