"""What the tests with a real vLLM share: its environment, one server for as many tests as it survives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.llama import Llama, running_llama
from tests.gateway.otlp import Collector, http_collector

from .environment import Unavailable, interpreter, is_installed
from .server import Vllm, running_vllm


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    if not is_installed():
        pytest.skip("NO REAL vLLM IS TESTED: `python -m tests.vllm.environment` has not installed it here")
    try:
        return interpreter()
    except Unavailable as missing:
        pytest.skip(f"NO REAL vLLM IS TESTED: {missing}")


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """Where gateway and vLLM send their spans, over HTTP."""
    with http_collector() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def llama() -> Iterator[Llama]:
    pytest.importorskip("xllamacpp", reason="llama.cpp needs the xllamacpp wheel, which this platform lacks")
    with running_llama() as server:
        yield server


@pytest.fixture(scope="module")
def vllm(vllm_python: Path, collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    """Shared by a file's tests; each leaves it idle."""
    folder = tmp_path_factory.mktemp("vllm")
    with running_vllm(vllm_python, folder=folder, traces=collector.endpoint) as server:
        yield server


@pytest.fixture
def mortal_vllm(vllm_python: Path, collector: Collector, tmp_path: Path) -> Iterator[Vllm]:
    """One for a test that ends it."""
    with running_vllm(vllm_python, folder=tmp_path, traces=collector.endpoint) as server:
        yield server
