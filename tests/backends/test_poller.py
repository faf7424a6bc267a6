"""The watch over model servers: what it asks, how often, and what it makes of silence."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from backends import Member, Poller, Signals, UpstreamBroken
from backends.testing import HANG, FakeBackend
from tests.backends.test_signals import LLAMA_CPP, VLLM

REFUSED = UpstreamBroken("not there", reason="connect")


def members(*names: str) -> list[Member]:
    return [Member(name, f"http://{name}", "m") for name in names]


class Watch:
    def __init__(self, backend: FakeBackend) -> None:
        self.backend = backend
        self.seen: list[Signals] = []

    async def until(self, is_so: Callable[[Signals], bool]) -> Signals:
        """The first signals like that, from now on."""
        start, deadline_s = len(self.seen), time.monotonic() + 20
        while True:
            for signals in self.seen[start:]:
                if is_so(signals):
                    return signals
            assert time.monotonic() < deadline_s, f"never seen: {self.seen[-3:]}"
            await asyncio.sleep(0.01)

    def asked(self) -> Counter[tuple[str, str]]:
        return Counter((member, request.path) for member, request in self.backend.sent)


@asynccontextmanager
async def watching(*names: str, backend: FakeBackend) -> AsyncIterator[tuple[Watch, Poller]]:
    watch = Watch(backend)
    poller = Poller(members(*names), backend=backend, on_signals=watch.seen.append, interval_s=0.05)
    async with poller:
        yield watch, poller


@pytest.fixture
def backend() -> FakeBackend:
    fake = FakeBackend()
    fake.page("a", "/metrics", VLLM.encode())
    fake.page("a", "/health")
    return fake


async def test_what_the_server_said_arrives(backend: FakeBackend) -> None:
    async with watching("a", backend=backend) as (watch, _):
        began_s = time.monotonic()
        said = await watch.until(lambda signals: signals.running is not None)
    assert (said.member, said.dialect, said.health) == ("a", "vllm", "ok")
    assert (said.running, said.waiting, said.kv_usage, said.missing) == (16, 4, 0.044, ())
    assert said.interval_s == 0.05
    assert began_s <= said.at_s <= time.monotonic()


async def test_a_server_without_metrics_is_asked_for_its_load(backend: FakeBackend) -> None:
    backend.page("b", "/load", b'{"server_load": 19}')
    async with watching("b", backend=backend) as (watch, _):
        said = await watch.until(lambda signals: signals.running is not None)
    assert (said.running, said.waiting, said.dialect, said.health) == (19, None, "load", "unknown")


async def test_a_server_that_tells_nothing_is_not_asked_every_time(backend: FakeBackend) -> None:
    async with watching("plain", backend=backend) as (watch, _):
        await watch.until(lambda _: len(watch.seen) >= 10)
    assert watch.asked()["plain", "/metrics"] == 1
    assert all(signals.running is None for signals in watch.seen)


async def test_a_metrics_page_that_is_no_text_tells_nothing(backend: FakeBackend) -> None:
    backend.page("a", "/metrics", b"\xff\xfe" * 100)
    backend.page("a", "/load", b"[" * 100_000)
    async with watching("a", backend=backend) as (watch, _):
        assert (await watch.until(lambda _: True)).running is None


async def test_a_failing_server_is_told_at_once(backend: FakeBackend) -> None:
    backend.page("a", "/health", status=503)
    async with watching("a", backend=backend) as (watch, _):
        assert (await watch.until(lambda _: True)).health == "failing"


async def test_a_server_that_is_gone_twice_in_a_row_is_unreachable_and_comes_back(
    backend: FakeBackend,
) -> None:
    async with watching("a", backend=backend) as (watch, _):
        await watch.until(lambda signals: signals.health == "ok")
        for path in ("/health", "/metrics"):
            backend.page("a", path, REFUSED)
        gone = await watch.until(lambda signals: signals.health == "unreachable")
        assert gone.running is None
        backend.page("a", "/health")
        backend.page("a", "/metrics", LLAMA_CPP.encode())
        back = await watch.until(lambda signals: signals.health == "ok" and signals.running is not None)
        assert back.dialect == "llama.cpp"


async def test_a_server_that_hangs_delays_nobody_else(backend: FakeBackend) -> None:
    backend.page("stuck", "/health", HANG)
    backend.page("stuck", "/metrics", HANG)
    async with watching("stuck", "a", backend=backend) as (watch, _):
        await watch.until(lambda _: len(watch.seen) >= 10)
    assert {signals.member for signals in watch.seen} == {"a"}


async def test_each_member_is_watched_once_however_often_the_list_is_renewed(backend: FakeBackend) -> None:
    async with watching("a", backend=backend) as (_, poller):
        for _ in range(10):
            await poller.update(members("a", "b"))
        assert sorted(poller.watched) == ["a", "b"]
        assert len([task for task in asyncio.all_tasks() if task.get_name().startswith("watch ")]) == 2


async def test_who_was_taken_out_is_asked_no_more(backend: FakeBackend) -> None:
    async with watching("a", "b", backend=backend) as (watch, poller):
        await watch.until(lambda signals: signals.member == "b")
        await poller.update(members("c"))
        before = watch.asked()
        await watch.until(lambda _: watch.asked()["c", "/health"] >= 1)
        await watch.until(lambda _: True)
        now = watch.asked()
    assert all(now[key] == before[key] for key in before if key[0] in "ab")


async def test_nobody_is_asked_after_the_end(backend: FakeBackend) -> None:
    async with watching("a", backend=backend) as (watch, poller):
        await watch.until(lambda _: True)
    assert poller.watched == []
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("watch ")] == []


@pytest.mark.parametrize("interval_s", [0.01, 2.0])
def test_an_interval_out_of_bounds_is_refused(interval_s: float) -> None:
    with pytest.raises(ValueError, match=r"0\.05 to 1"):
        Poller([], backend=FakeBackend(), on_signals=print, interval_s=interval_s)
