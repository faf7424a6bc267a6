"""A whole data plane for a test, in this process: real store, scripted backends, real HTTP on a free port.

async with running_gateway(upstream) as gateway:
    reply = await gateway.chat("What is a kettle for?")
    assert reply.headers["x-cache"] == "MISS"
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from auth import KeyRef, Limits, Policy, StoreDirectory, disabled, mint
from gateway.app import DataPlane, open_gateway
from gateway.data.protocol import HttpProtocol
from gateway.evidence.desk import AskCache, CacheDesk, CacheTold, Wish
from gateway.host.control import ControlRecord
from gateway.host.runtime import Runtime
from gateway.host.serving import bind
from gateway.settings.reading import Settings
from gateway.store.client import StoreClient
from tests.scripted import ScriptedUpstream
from tests.valkey import Valkey, eventually, running_valkey


@dataclass
class RunningGateway:
    plane: DataPlane
    valkey: Valkey
    client: httpx.AsyncClient
    base_url: str
    key: str
    directory: StoreDirectory
    _controls: list[Any] = field(default_factory=list)
    _desks: list[CacheDesk] = field(default_factory=list)

    async def new_key(
        self,
        tenant: str = "acme",
        service: str = "web",
        *,
        rate_per_s: float = 5_000,
        burst: int = 100_000,
        limits: Limits | None = None,
        policy: Policy | None = None,
    ) -> str:
        record, secret = mint(
            tenant=tenant,
            service=service,
            name="test",
            limits=limits or Limits(requests_per_s=rate_per_s, burst=burst),
            policy=policy or Policy(),
            created_at_s=time.time(),
        )
        await self.directory.add(record)
        return secret

    async def disable(self, key: str) -> None:
        await self.directory.change(
            KeyRef(key.split("-")[1]), lambda record: disabled(record, at_s=time.time())
        )

    def control(self, record: ControlRecord) -> None:
        for callback in self._controls:
            callback(record)

    async def ask_cache(self, wish: Wish) -> CacheTold:
        """As the supervisor asks a worker."""
        return await self._desks[0].answer(AskCache(1, wish))

    async def idle(self) -> None:
        """Wait until every request is over, storing its answer included."""
        await eventually(lambda: self.plane.in_flight == 0)

    async def chat(
        self,
        content: Any = "What is a kettle for?",
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> httpx.Response:
        """POST a chat request; `messages` replaces the one user turn made of `content`."""
        body = {"model": "m1", "temperature": 0, "messages": [{"role": "user", "content": content}]} | fields
        return await self.post(json.dumps(body).encode(), key=key, headers=headers)

    async def post(
        self, body: bytes, *, key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return await self.client.post(
            "/v1/chat/completions",
            content=body,
            headers={"authorization": f"Bearer {key or self.key}", "content-type": "application/json"}
            | dict(headers or {}),
        )

    @asynccontextmanager
    async def chat_stream(
        self,
        content: Any = "What is a kettle for?",
        *,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> AsyncIterator[httpx.Response]:
        body = {
            "model": "m1",
            "temperature": 0,
            "stream": True,
            "messages": [{"role": "user", "content": content}],
        }
        async with self.client.stream(
            "POST",
            "/v1/chat/completions",
            json=body | fields,
            headers={"authorization": f"Bearer {self.key}"} | dict(headers or {}),
        ) as reply:
            yield reply


def events(text: str) -> list[Any]:
    """The data of an SSE body: parsed JSON, or the bare word for `[DONE]`."""
    data = [block.removeprefix("data: ") for block in text.split("\n\n") if block]
    return [word if word == "[DONE]" else json.loads(word) for word in data]


def streamed_text(text: str) -> str:
    chunks = [event for event in events(text) if isinstance(event, dict) and event.get("choices")]
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)


def answer_of(reply: httpx.Response) -> str:
    return str(reply.json()["choices"][0]["message"]["content"])


def settings_for(
    *upstreams: ScriptedUpstream | str, data_dir: Path | None = None, **sections: Any
) -> Settings:
    """Two public models, `m1` and `m2`, over the same members.

    No embedder and no audits of hits (which ask a backend at random) unless a test says otherwise, and a patient
    store deadline: client, servers and gateway share one loop here, which a busy machine stops for longer than the
    50 ms that a deployment grants.
    """
    urls = [upstream if isinstance(upstream, str) else upstream.base_url for upstream in upstreams]
    pools = {
        model: [
            {"url": url, "name": f"{model}-{number}", "model": "m", "revision": "r1"}
            for number, url in enumerate(urls, 1)
        ]
        for model in ("m1", "m2")
    }
    sections = {"store": {"deadline_ms": 2000}} | sections
    cache = {"embedder": {"kind": "none"}, "audits": {"served_share": 0}} | sections.pop("cache", {})
    folder = {"data_dir": data_dir} if data_dir is not None else {}
    return Settings(pools=pools, cache=cache, **folder, **sections)


@asynccontextmanager
async def running_gateway(
    *upstreams: ScriptedUpstream | str,
    valkey: Valkey | None = None,
    cache_url: str | None = None,
    settings: Settings | None = None,
    on_failed_login: Callable[[str, str | None], None] = lambda _address, _key_id: None,
    **sections: Any,
) -> AsyncIterator[RunningGateway]:
    async with AsyncExitStack() as stack:
        valkey = valkey or await stack.enter_async_context(running_valkey())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eg-")))
        settings = settings or settings_for(*upstreams, data_dir=folder, **sections)
        controls: list[Any] = []
        desks: list[CacheDesk] = []
        runtime = Runtime(
            worker=0,
            durable_url=valkey.url,
            cache_url=cache_url or valkey.url,
            secret=b"s" * 32,
            live_workers=lambda: 1,
            on_control=controls.append,
            on_failed_login=on_failed_login,
            offer_cache=desks.append,
        )
        plane = await stack.enter_async_context(open_gateway(settings, runtime))
        base_url = await stack.enter_async_context(_served(plane))
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=base_url, timeout=30, trust_env=False)
        )
        admin = await stack.enter_async_context(StoreClient.open(valkey.url, deadline_s=5, name="test"))
        gateway = RunningGateway(plane, valkey, client, base_url, "", StoreDirectory(admin), controls, desks)
        gateway.key = await gateway.new_key()
        yield gateway


@asynccontextmanager
async def _served(plane: DataPlane) -> AsyncIterator[str]:
    """The plane behind uvicorn as a worker runs it, on a free port."""
    listener = bind("127.0.0.1:0", setting="a test's own")
    config = uvicorn.Config(
        plane.asgi,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=HttpProtocol,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment] # the test's own signals
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    async with asyncio.timeout(10):
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.001)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()
