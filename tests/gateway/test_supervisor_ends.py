"""How `serve` ends: in order, in time, and without leaving anything behind; and how it refuses to start."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import httpx
import pytest

from tests.valkey import running_valkey

from .otlp import black_hole
from .serving import Serving, eventually, is_alive, serving


class Stream:
    """A client that reads a long answer in a thread."""

    def __init__(self, running: Serving, *, chunks: int) -> None:
        self.lines: list[str] = []
        self._url = f"{running.data_plane}/stream/{chunks}"
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        eventually(lambda: bool(self.lines))

    def _read(self) -> None:
        try:
            with httpx.stream("GET", self._url, timeout=10) as reply:
                self.lines.extend(reply.iter_lines())
        except httpx.HTTPError:
            self.lines.append("broken")

    def join(self) -> list[str]:
        self._thread.join(10)
        return self.lines


def test_a_running_stream_is_finished_after_sigterm() -> None:
    with serving(workers=2) as running:
        stream = Stream(running, chunks=12)
        running.process.send_signal(signal.SIGTERM)
        eventually(lambda: running.readiness() == "draining")
        assert stream.join()[-1] == "[DONE]"
        assert running.process.wait(20) == 0
        assert not running.children()


@pytest.mark.full  # a whole start and end of processes
def test_a_stream_that_outlasts_the_grace_is_cut() -> None:
    with serving(server={"grace_s": 1}) as running:
        stream = Stream(running, chunks=100)
        assert running.stop() == 0
        assert stream.join()[-1] != "[DONE]"


def test_the_second_signal_ends_at_once() -> None:
    with serving() as running:
        stream, started = Stream(running, chunks=100), time.monotonic()
        running.process.send_signal(signal.SIGINT)
        eventually(lambda: "draining" in running.log)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(20) == 1
        assert time.monotonic() - started < 5
        assert stream.join()[-1] != "[DONE]"


@pytest.mark.parametrize("moment", ["serve.lock", "admin.key"])
def test_sigterm_during_the_start_undoes_it(moment: str) -> None:
    with serving(is_ready=False) as running:
        eventually((running.folder / moment).exists)
        assert running.stop() == 0
        assert "Traceback" not in running.log


def test_when_the_supervisor_is_killed_nothing_survives_it() -> None:
    with serving(workers=2) as running:
        Stream(running, chunks=100)
        children = running.children()
        assert len(children) >= 3
        running.process.kill()
        eventually(lambda: not any(is_alive(pid) for pid in children))


@pytest.mark.full  # a whole start and end of processes
def test_a_collector_that_never_answers_does_not_hold_up_the_end() -> None:
    with black_hole() as endpoint:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        with serving(factory="traced_gateway:open_traced", environment=environment) as running:
            for _ in range(20):
                running.facts()
            assert running.stop() == 0


def test_a_worker_that_cannot_start_ends_the_start() -> None:
    with serving(factory="tiny_gateway:open_broken", is_ready=False) as running:
        assert running.process.wait(60) == 1
        assert not running.children()


@pytest.mark.full  # a whole start and end of processes
async def test_a_durable_store_that_is_away_is_waited_for() -> None:
    async with running_valkey() as valkey:
        url = valkey.url
        await valkey.stop()
        with serving(store={"durable": url, "cache": url}, is_ready=False) as running:
            eventually(lambda: running.readiness() == "starting")
            assert (await asyncio.to_thread(httpx.get, f"{running.admin}/health/live")).status_code == 200
            await valkey.start()
            running.until_ready()


@pytest.mark.full  # a whole start and end of processes
def test_a_hung_worker_does_not_hold_up_the_end() -> None:
    with serving(server={"grace_s": 0}) as running:
        hung = running.facts()["pid"]
        os.kill(hung, signal.SIGSTOP)
        assert running.stop(within_s=10) == 0
        assert not is_alive(hung)
