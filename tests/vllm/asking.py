"""Asks a deployment over real servers, and says in one word what a client saw."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx

from tests.backends.llama import ALIAS, Llama
from tests.e2e.deployment import Deployment
from tests.e2e.pool_deployment import deployed_pools
from tests.gateway.otlp import Collector
from tests.running import events

from .server import CONTEXT, MODEL, Vllm

Ending = Literal["full", "error-frame", "refused"]
_NO_CACHE = {"x-cache-mode": "off"}


@dataclass
class Stream:
    """What one client has seen so far."""

    has_content: asyncio.Event = field(default_factory=asyncio.Event)
    status: int = 0
    backend: str = ""
    text: str = ""
    is_cut: bool = False

    @property
    def ending(self) -> Ending:
        """Exactly one of three; anything else fails here."""
        assert not self.is_cut, "the connection was cut without a word"
        if self.status != 200:
            assert self.status in (502, 503, 504), self.status
            assert json.loads(self.text)["error"]["code"]
            return "refused"
        seen = events(self.text)
        errors = [event for event in seen if isinstance(event, dict) and "error" in event]
        reasons = [
            choice["finish_reason"]
            for event in seen
            if isinstance(event, dict)
            for choice in event.get("choices", ())
            if choice.get("finish_reason")
        ]
        if errors:
            assert seen[-1] == errors[0], "an error frame is the last word"
            assert not reasons, "an answer that was whole has no error after it"
            return "error-frame"
        assert seen[-1] == "[DONE]"
        assert len(reasons) == 1
        return "full"


@dataclass(frozen=True)
class Client:
    echogate: Deployment
    key: str

    async def ask(
        self, text: str = "Say something.", *, max_tokens: int = 4, **headers: str
    ) -> httpx.Response:
        """A whole answer, past the cache unless headers say otherwise."""
        async with self._http() as http:
            body = self._body(text, max_tokens)
            return await http.post("/v1/chat/completions", json=body, headers=headers or _NO_CACHE)

    async def stream(self, text: str, seen: Stream, *, max_tokens: int) -> None:
        """Read to the end into `seen`. Cached as usual."""
        body = self._body(text, max_tokens) | {"stream": True}
        async with self._http() as http, http.stream("POST", "/v1/chat/completions", json=body) as reply:
            seen.status, seen.backend = reply.status_code, reply.headers.get("x-echogate-backend", "")
            try:
                async for part in reply.aiter_text():
                    seen.text += part
                    if '"content":"' in seen.text:
                        seen.has_content.set()
            except httpx.TransportError:
                seen.is_cut = True

    async def is_stored(self, text: str, *, max_tokens: int) -> bool:
        reply = await self.ask(text, max_tokens=max_tokens, **{"cache-control": "only-if-cached"})
        return reply.status_code != 504

    def _body(self, text: str, max_tokens: int) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"model": "m", "temperature": 0, "max_tokens": max_tokens, "messages": messages}

    def _http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.echogate.url,
            headers={"authorization": f"Bearer {self.key}"},
            timeout=120,
            trust_env=False,
        )


@asynccontextmanager
async def both(
    folder: Path, vllm: Vllm, llama: Llama, collector: Collector, *, llama_tier: int = 0, **pool: Any
) -> AsyncIterator[Client]:
    """One pool `m` of a vLLM and a llama.cpp, taken to run the same."""
    members = [
        {
            "url": vllm.base_url,
            "name": "vllm",
            "model": MODEL,
            "revision": "r",
            "capabilities": {"features": ["priority", "cache_salt"], "max_context": CONTEXT},
        },
        {"url": llama.base_url, "name": "llama", "model": ALIAS, "revision": "r", "tier": llama_tier},
    ]
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    pools = {"m": {"members": members, **pool}}
    # Asked seldom, so that what it says counts for seconds: on a busy machine vLLM takes that long to say it.
    upstream = {"poll_interval_ms": 1000}
    async with deployed_pools(folder, pools, env=env, upstream=upstream) as echogate:
        yield Client(echogate, (await echogate.create_key())["key"])
