"""`echogate serve` with four workers, as an operator runs it: one store, one admin key, the same answers from all."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from gateway.embedded.child import running
from tests.e2e.asking import ASKED, SAME
from tests.e2e.deployment import Deployment, deployed, environment, serve, until
from tests.gateway.serving import descendants, eventually, is_alive
from tests.scripted import Call, ScriptedUpstream, Wire, delta

WORKERS = 4
ONLY_IF_CACHED = {"cache-control": "only-if-cached"}
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as scripted:
        yield scripted


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echogate(
    upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    folder = tmp_path_factory.mktemp("serve") / "data"
    async with deployed(folder, upstream.base_url, workers=WORKERS) as deployment:
        yield deployment


@pytest_asyncio.fixture(loop_scope="module")
async def key(echogate: Deployment) -> str:
    """Of a tenant of its own, so that no test sees another's answers. All workers are there when it is made."""
    await echogate.wait_ready()
    return str((await echogate.create_key(f"tenant-{time.time_ns():x}"))["key"])


def workers_of(echogate: Deployment) -> list[int]:
    return [pid for pid, command in descendants(echogate.child.pid).items() if "spawn_main" in command]


async def test_four_workers_share_one_store_and_one_admin_key(echogate: Deployment) -> None:
    commands = descendants(echogate.child.pid).values()
    assert sum("valkey" in command for command in commands) == 1
    assert len(workers_of(echogate)) == WORKERS
    admin_key = echogate.data_dir / "admin.key"
    assert admin_key.stat().st_mode & 0o777 == 0o600
    assert admin_key.read_text().strip() not in (echogate.data_dir.parent / "serve.log").read_text()


async def test_what_one_worker_stored_all_of_them_serve(
    echogate: Deployment, upstream: ScriptedUpstream, key: str
) -> None:
    """The exact tier at once; the semantic tier as soon as each worker's index has followed."""
    before = len(upstream.calls)
    first = await echogate.ask(ASKED, key=key)
    assert first.headers["x-cache"] == "MISS"

    async def is_stored() -> bool:  # it is written after the reply has left
        reply = await echogate.ask(ASKED, key=key, headers=ONLY_IF_CACHED)
        return reply.status_code == 200

    await until(is_stored, within_s=10)
    same = [await echogate.ask(ASKED, key=key) for _ in range(20)]
    assert {reply.headers["x-cache"] for reply in same} == {"HIT-EXACT"}

    async def all_have_followed() -> bool:
        replies = [await echogate.ask(SAME, key=key, headers=ONLY_IF_CACHED) for _ in range(20)]
        return {reply.headers["x-cache"] for reply in replies} == {"HIT-SEMANTIC"}

    await until(all_have_followed, within_s=10)
    assert len(upstream.calls) - before == 1


async def test_a_deleted_key_is_refused_by_every_worker_within_a_second(echogate: Deployment) -> None:
    await echogate.wait_ready()
    made = await echogate.create_key()
    for _ in range(20):  # until all workers know it
        assert (await echogate.ask(ASKED, key=made["key"])).status_code == 200
    deleted_at = time.monotonic()
    deleted = (await echogate.admin.delete(f"/admin/keys/{made['id']}")).raise_for_status().json()
    assert deleted["change"]["not_acknowledged_by"] == []
    statuses = {(await echogate.ask(ASKED, key=made["key"])).status_code for _ in range(20)}
    assert statuses == {401}
    assert deleted["deleted"] is True
    assert time.monotonic() - deleted_at < 10


async def test_the_metrics_of_all_workers_add_up(echogate: Deployment, key: str) -> None:
    async def requests() -> float:
        return await echogate.metric("echogate_requests_total", endpoint="/v1/chat/completions")

    before = await requests()
    texts = [f"What is the square of {number}?" for number in range(40)]
    replies = await asyncio.gather(*(echogate.ask(text, key=key) for text in texts))
    assert {reply.status_code for reply in replies} == {200}

    async def all_are_counted() -> bool:  # each is once its answer is stored, which is after the reply
        return await requests() - before >= 40

    await until(all_are_counted, within_s=10)
    assert await requests() - before == 40


async def test_a_killed_worker_loses_its_own_requests_and_no_others(
    echogate: Deployment, upstream: ScriptedUpstream, key: str
) -> None:
    released = asyncio.Event()

    async def held(_: Call, wire: Wire) -> None:
        await wire.head(content_type="text/event-stream", transfer_encoding="chunked")
        await wire.chunk(delta("so far"))
        await released.wait()
        await wire.chunk(delta(" and to the end", finish="stop"))
        await wire.chunk("[DONE]")
        await wire.send(b"0\r\n\r\n")

    async with AsyncExitStack() as stack:
        streams: list[HeldStream] = []
        while (
            len({stream.worker for stream in streams}) < 2
        ):  # which worker takes a connection is the kernel's choice
            assert len(streams) < 100, "one worker took all connections"
            upstream.script(held)
            streams.append(
                await stack.enter_async_context(HeldStream.open(echogate, key, number=len(streams)))
            )
        victim = streams[0].worker
        os.kill(victim, signal.SIGKILL)
        await until(lambda: is_replaced(echogate, victim), within_s=30)
        released.set()
        ends = await asyncio.gather(*(stream.end() for stream in streams))
    for stream, end in zip(streams, ends, strict=True):
        assert end == ("broken" if stream.worker == victim else "so far and to the end")
    assert (await echogate.ask("Are you still there?", key=key)).status_code == 200


async def test_a_second_serve_on_the_same_data_folder_says_so_and_ends(echogate: Deployment) -> None:
    log = echogate.data_dir.parent / "second.log"
    async with running("a second serve", serve(echogate.config), log=log, env=environment()) as second:
        assert await second.wait() == 1
    assert f"{echogate.data_dir} is in use by process {echogate.child.pid}" in log.read_text()
    await echogate.wait_ready()


async def test_answers_are_found_again_after_a_restart(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """By meaning, too: the index is rebuilt from the store before the first request is taken."""
    async with deployed(tmp_path / "data", upstream.base_url, workers=1) as first:
        key = (await first.create_key())["key"]
        asked = await first.ask(ASKED, key=key)
        left = descendants(first.child.pid)
        await first.child.stop()
        assert await first.child.wait() == 0
        eventually(lambda: not any(is_alive(pid) for pid in left), within_s=2)
    async with deployed(tmp_path / "data", upstream.base_url, workers=2) as second:
        alike = await second.ask(SAME, key=key)
        same = await second.ask(ASKED, key=key)
    assert [reply.headers["x-cache"] for reply in (asked, same, alike)] == [
        "MISS",
        "HIT-EXACT",
        "HIT-SEMANTIC",
    ]
    assert asked.json()["choices"] == same.json()["choices"] == alike.json()["choices"]


async def is_replaced(echogate: Deployment, worker: int) -> bool:
    return not is_alive(worker) and await echogate.metric("echogate_workers") == WORKERS


@dataclass(frozen=True)
class HeldStream:
    """An answer of which the first words have come, and the worker that brings it."""

    worker: int
    _reply: httpx.Response
    _lines: AsyncIterator[str]

    @classmethod
    @asynccontextmanager
    async def open(cls, echogate: Deployment, key: str, *, number: int) -> AsyncIterator[HeldStream]:
        body = {
            "model": "m1",
            "stream": True,
            "messages": [{"role": "user", "content": f"Tell me tale {number}"}],
        }
        headers = {"authorization": f"Bearer {key}"}
        async with (
            httpx.AsyncClient(base_url=echogate.url, timeout=60, trust_env=False) as client,
            client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as reply,
        ):
            lines = reply.aiter_lines()
            assert "so far" in await anext(lines)
            _, port = reply.extensions["network_stream"].get_extra_info("client_addr")
            yield cls(server_of(port, workers_of(echogate)), reply, lines)

    async def end(self) -> str:
        """The whole text, or "broken"."""
        text = "so far"
        try:
            async for line in self._lines:
                if line.startswith("data: {"):
                    text += (
                        json.loads(line.removeprefix("data: "))["choices"][0]["delta"].get("content") or ""
                    )
        except httpx.TransportError:
            return "broken"
        return text


def server_of(client_port: int, pids: list[int]) -> int:
    """Which of the processes holds the other end of the connection from this port."""
    tables = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    # The port may have another connection, to a server of somebody else's.
    inodes = [row[9] for row in tables if row[2].endswith(f":{client_port:04X}") and row[3] == "01"]
    (pid,) = (pid for pid in pids if any(f"socket:[{inode}]" in open_files(pid) for inode in inodes))
    return pid


def open_files(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            found.add(str(entry.readlink()))
    return found
