"""What every embedder promises: unit vectors, the same for the same text, and a refusal of what it cannot read."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import threading
from dataclasses import dataclass

import numpy as np
import pytest

from cache import Embedder, UnfitText, open_embedder
from cache.embed.http_embedder import HttpEmbedder
from cache.embed.minilm import DIMENSION, WINDOW
from cache.testing import HashEmbedder
from tests.cache.prepared import prepared_model
from tests.embeddings_server import cutting, running_embeddings

KINDS = [
    "hash",
    "http",
    "onnx-int8",
    "onnx-fp32",
    pytest.param("sentence-transformers", marks=pytest.mark.full),
]
TEXTS = (
    "How do I reset my password?",
    "What is the capital of France?",
    "Explain the difference between a list and a tuple in Python, with one short example of each.",
    "My card was declined at the supermarket although there is money in the account. What should I do now?",
)


@dataclass(frozen=True)
class Case:
    embedder: Embedder
    most_words: int  # of one piece each, that fit in the window

    def __repr__(self) -> str:
        return repr(self.embedder)


_opened: dict[str, Case] = {}


def opened(kind: str) -> Case:
    if kind not in _opened:
        _opened[kind] = _open(kind)
    return _opened[kind]


def _open(kind: str) -> Case:
    if kind == "hash":
        return Case(HashEmbedder(window=40), 40)
    if kind == "http":
        server = contextlib.ExitStack()
        atexit.register(server.close)
        url = server.enter_context(running_embeddings(cutting(HashEmbedder(window=41), window=41))).base_url
        return Case(open_embedder("http", model="m", url=url, dimension=64, window=41, timeout_s=30), 40)
    most_words = WINDOW - 2  # [CLS] and [SEP] take two
    if kind == "onnx-int8":
        return Case(open_embedder("onnx", model=str(prepared_model())), most_words)
    if kind == "onnx-fp32":
        return Case(open_embedder("onnx", model=str(prepared_model()), precision="fp32"), most_words)
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed")
    from tests.cache.published import published_model

    return Case(open_embedder("sentence_transformers", model=str(published_model())), most_words)


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest) -> Case:
    kind: str = request.param
    return opened(kind)


@pytest.mark.parametrize("text", TEXTS)
def test_a_vector_is_of_unit_length_and_the_stated_size(case: Case, text: str) -> None:
    vector = case.embedder.embed(text)
    assert vector.dtype == np.float32
    assert vector.shape == (case.embedder.dimension,)
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)


def test_the_same_text_gives_the_same_vector(case: Case) -> None:
    assert np.array_equal(case.embedder.embed(TEXTS[0]), case.embedder.embed(TEXTS[0]))


def test_similar_texts_are_nearer_than_others(case: Case) -> None:
    embed = case.embedder.embed
    asked = embed("How do I reset my password?")
    assert (
        asked @ embed("How can I reset my password?") > asked @ embed("What is the capital of France?") + 0.2
    )


@pytest.mark.parametrize("word", ["river ", "中"])
def test_the_window_is_exact_to_the_piece(case: Case, word: str) -> None:
    """One below and at the window are read; one above is refused, never cut."""
    if isinstance(case.embedder, HashEmbedder | HttpEmbedder) and word == "中":
        pytest.skip("the fake knows no Chinese")
    case.embedder.embed(word * (case.most_words - 1))
    case.embedder.embed(word * case.most_words)
    with pytest.raises(UnfitText, match="too-long"):
        case.embedder.embed(word * (case.most_words + 1))


def test_megabytes_are_refused_at_once(case: Case) -> None:
    with pytest.raises(UnfitText, match="too-long"):
        case.embedder.embed("lorem " * 500_000)


@pytest.mark.parametrize("text", ["花呗的额度怎么提升呢", "蚂蚁借呗逾期了怎么办", "👩‍🚀🛰️ 🪐"])
def test_a_text_of_unknown_pieces_is_refused(case: Case, text: str) -> None:
    with pytest.raises(UnfitText, match=r"unknown-tokens|no-words|embedder-refused"):
        case.embedder.embed(text)


@pytest.mark.parametrize("text", ["", "   \n\t"])
def test_a_text_without_words_is_refused(case: Case, text: str) -> None:
    with pytest.raises(UnfitText, match="no-words"):
        case.embedder.embed(text)


def test_many_threads_at_once_get_the_vectors_of_one(case: Case) -> None:
    expected = [case.embedder.embed(text) for text in TEXTS]
    wrong: list[object] = []

    def work() -> None:
        for _ in range(3):
            for text, vector in zip(TEXTS, expected, strict=True):
                try:
                    got = case.embedder.embed(text)
                except Exception as error:  # a failure in a thread must fail the test
                    wrong.append(error)
                else:
                    if float(np.abs(got - vector).max()) > 1e-3:
                        wrong.append(text)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_fingerprint_names_weights_precision_and_processor() -> None:
    prints = {opened(kind).embedder.fingerprint for kind in ("hash", "onnx-int8", "onnx-fp32")}
    assert len(prints) == 3
    assert opened("onnx-int8").embedder.dimension == DIMENSION


@pytest.mark.parametrize("text", TEXTS)
def test_int8_stays_close_to_fp32(text: str) -> None:
    cosine = opened("onnx-int8").embedder.embed(text) @ opened("onnx-fp32").embedder.embed(text)
    assert cosine >= 0.97


@pytest.mark.full
@pytest.mark.parametrize("text", TEXTS)
def test_the_built_graphs_agree_with_sentence_transformers(text: str) -> None:
    reference = opened("sentence-transformers").embedder.embed(text)
    assert opened("onnx-fp32").embedder.embed(text) @ reference >= 0.9999
    assert opened("onnx-int8").embedder.embed(text) @ reference >= 0.97
