"""An embedder that is another server: what it says is checked, and when it fails no look-up waits for it twice."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from cache import EmbedQueue, ModelError, UnfitText, open_embedder
from cache.embed.http_embedder import HttpEmbedder
from cache.errors import EmbedderFailed
from cache.testing import HashEmbedder
from tests.backends.llama import free_port, is_answering, weights
from tests.cache.parts import soon
from tests.embeddings_server import EmbeddingsServer, cutting, refusal, running_embeddings, vectors

ONES = [[1.0, 0.0, 0.0, 0.0]]


class Clock:
    def __init__(self) -> None:
        self.at_s = 100.0

    def __call__(self) -> float:
        return self.at_s


@contextlib.contextmanager
def embedder(
    server: EmbeddingsServer, *, dimension: int = 4, window: int = 512, **more: object
) -> Iterator[HttpEmbedder]:
    made = HttpEmbedder(server.base_url, model="m", dimension=dimension, window=window, **more)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


def test_the_key_is_sent_and_the_vector_comes_back_at_unit_length() -> None:
    for raw in ([0.0, 0.1, 0.0, 0.0], [0.0, 50.0, 0.0, 0.0]):
        with running_embeddings(lambda _, raw=raw: vectors(raw)) as server, embedder(server, key="k1") as one:  # type: ignore[misc]
            assert one.embed("text").tolist() == [0.0, 1.0, 0.0, 0.0]
        assert server.keys == ["Bearer k1"]


@pytest.mark.parametrize(
    "reply",
    [
        vectors([0.0] * 4),
        vectors([float("nan")] * 4),
        vectors([float("inf")] * 4),
        vectors([None] * 4),
        vectors(["1", "0", "0", "0"]),
        vectors([1.0] * 3),
        vectors([1.0] * 5),
        vectors([]),
        vectors(),
        vectors(*ONES, *ONES),
        (200, b""),
        (200, b"<html>"),
        (200, b'{"data": null}'),
    ],
    ids=lambda reply: reply[1][:60].decode(),
)
async def test_what_is_no_vector_of_the_right_size_is_refused_and_the_next_text_is_read(
    reply: tuple[int, bytes],
) -> None:
    with running_embeddings(lambda texts: reply if texts == ["bad"] else vectors(*ONES)) as server:
        queue = EmbedQueue(HttpEmbedder(server.base_url, model="m", dimension=4, window=512))
        try:
            with pytest.raises(UnfitText, match="unusable-vector"):
                await queue.embed("bad", deadline=soon())
            assert (await queue.embed("good", deadline=soon())).vector.tolist() == ONES[0]
        finally:
            queue.close()


def test_a_text_that_the_server_refuses_is_asked_for_once() -> None:
    with (
        running_embeddings(lambda _: refusal("maximum context length is 512")) as server,
        embedder(server) as one,
        pytest.raises(UnfitText, match="embedder-refused"),
    ):
        one.embed("a long text")
    assert len(server.asked) == 1


def test_without_a_count_of_tokens_bytes_decide() -> None:
    with running_embeddings(lambda _: vectors(*ONES)) as server, embedder(server, window=20) as one:
        one.embed("x" * 17)
        with pytest.raises(UnfitText, match="too-long"):
            one.embed("x" * 18)


def test_half_a_surrogate_pair_is_not_sent() -> None:
    with (
        running_embeddings(lambda _: vectors(*ONES)) as server,
        embedder(server) as one,
        pytest.raises(UnfitText),
    ):
        one.embed("half \ud83d a pair")
    assert server.asked == []


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_fails_is_left_alone_for_a_while(status: int) -> None:
    clock = Clock()
    with running_embeddings(lambda _: refusal("busy", status)) as server, embedder(server, now=clock) as one:
        for _ in range(5):
            with pytest.raises(EmbedderFailed):
                one.embed("text")
        assert len(server.asked) == 1
        clock.at_s += 0.6
        with pytest.raises(EmbedderFailed):
            one.embed("text")
        assert len(server.asked) == 2
        server.answering = lambda _: vectors(*ONES)
        clock.at_s += 0.6  # it failed twice: the pause has doubled
        with pytest.raises(EmbedderFailed):
            one.embed("text")
        clock.at_s += 0.6
        one.embed("text")


def test_an_error_that_may_be_a_long_texts_own_shuts_nobody_out() -> None:
    """llama.cpp says 500 to a text that is too long for it."""
    with (
        running_embeddings(
            lambda texts: refusal("too large", 500) if len(texts[0]) > 99 else vectors(*ONES)
        ) as server,
        embedder(server, window=50) as one,
    ):
        for _ in range(3):
            with pytest.raises(UnfitText, match="embedder-refused"):
                one.embed("word " * 30)
        one.embed("a short one")


def test_a_server_that_is_away_or_trickles_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        one = HttpEmbedder(url, model="m", dimension=4, window=512, timeout_s=0.3)
        threading.Thread(target=_trickle, args=(listener,), daemon=True).start()
        started = time.monotonic()
        with pytest.raises(EmbedderFailed):
            one.embed("text")
        assert time.monotonic() - started < 5
        one.close()


def _trickle(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection, contextlib.suppress(OSError):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.05)


def test_a_reply_without_end_is_cut_off() -> None:
    flood = (200, b'{"data": [' + b" " * (1 << 20))
    with (
        running_embeddings(lambda _: flood) as server,
        embedder(server) as one,
        pytest.raises(EmbedderFailed),
    ):
        one.embed("text")


def test_many_texts_travel_together_and_one_bad_one_spoils_no_other() -> None:
    hashed = HashEmbedder(window=40)
    with running_embeddings(cutting(hashed, window=400)) as server, embedder(server, dimension=64) as one:
        texts = [f"number {number} of many" for number in range(20)]
        together = one.embed_many(texts)
        assert server.asked == [texts]
        for text, vector in zip(texts, together, strict=True):
            assert isinstance(vector, np.ndarray)
            assert np.allclose(vector, hashed.embed(text), atol=1e-6)
        mixed = one.embed_many(["good", "蚂蚁借呗逾期了怎么办", "  ", "good too"])
    assert [str(each) if isinstance(each, Exception) else "vector" for each in mixed] == [
        "vector",
        "embedder-refused",
        "no-words",
        "vector",
    ]


async def test_texts_that_wait_are_sent_in_one_call() -> None:
    hashed, entered, gate = HashEmbedder(), threading.Event(), threading.Event()

    def answer(texts: list[str]) -> tuple[int, bytes]:
        entered.set()
        assert gate.wait(5)
        return cutting(hashed, window=400)(texts)

    with running_embeddings(answer) as server:
        queue = EmbedQueue(HttpEmbedder(server.base_url, model="m", dimension=64, window=512))
        try:
            first = asyncio.ensure_future(queue.embed("first", deadline=soon()))
            assert await asyncio.to_thread(entered.wait, 5)
            others = [asyncio.ensure_future(queue.embed(f"other {n}", deadline=soon() + 5)) for n in range(5)]
            await asyncio.sleep(0)
            gate.set()
            await first
            for number, done in enumerate(await asyncio.gather(*others)):
                assert np.allclose(done.vector, hashed.embed(f"other {number}"), atol=1e-6)
        finally:
            gate.set()
            queue.close()
    assert server.asked == [["first"], [f"other {number}" for number in range(5)]]


def test_at_the_start_another_size_is_refused_by_naming_both() -> None:
    with (
        running_embeddings(lambda _: vectors([1.0] * 768)) as server,
        pytest.raises(ModelError, match=r"768 .* 384"),
    ):
        open_embedder("http", model="m", url=server.base_url, dimension=384, window=512)


def test_at_the_start_a_server_that_is_away_is_no_error() -> None:
    away = f"http://127.0.0.1:{free_port()}"
    open_embedder("http", model="m", url=away, dimension=384, window=512).close()


def test_at_the_start_a_refused_key_is_told() -> None:
    with (
        running_embeddings(lambda _: refusal("invalid key", 401)) as server,
        pytest.raises(ModelError, match="401"),
    ):
        open_embedder("http", model="m", url=server.base_url, dimension=4, window=512)


_LLAMA = """
import signal, sys, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.hostnames, parameters.port, parameters.model.path = ["127.0.0.1"], int(sys.argv[1]), sys.argv[2]
parameters.model_alias, parameters.n_ctx, parameters.embedding = {"smollm2"}, 512, True
parameters.n_parallel, parameters.cpuparams.n_threads, parameters.cpuparams_batch.n_threads = 1, 1, 1
parameters.n_ubatch = parameters.n_batch = 512
parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
server = xllamacpp.Server(parameters)
signal.pause()
"""


def test_a_real_llama_cpp_embeds() -> None:
    """SmolLM2 is no model for sentences: only the form of the exchange is looked at."""
    pytest.importorskip("xllamacpp", reason="llama.cpp needs the xllamacpp wheel, which this platform lacks")
    port = free_port()
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        [sys.executable, "-c", _LLAMA, str(port), str(weights())], stdout=quiet, stderr=quiet
    ) as llama:
        try:
            deadline_s = time.monotonic() + 60
            while not is_answering(port):
                assert llama.poll() is None
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
            one = open_embedder(
                "http",
                model="smollm2",
                url=f"http://127.0.0.1:{port}",
                dimension=576,
                window=512,
                timeout_s=30,
            )
            assert isinstance(one, HttpEmbedder)
            vector = one.embed("How do I reset my password?")
            assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)
            again, refused = one.embed_many(["How do I reset my password?", "river " * 600])
            assert isinstance(again, np.ndarray)
            assert float(again @ vector) > 0.999
            assert isinstance(refused, UnfitText)
            one.embed("after a text that was too long for it")
            one.close()
        finally:
            llama.kill()
