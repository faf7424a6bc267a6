"""What the end-to-end tests share: two real model servers, started once for a test run (and each xdist worker)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def llamas() -> Iterator[tuple[str, str]]:
    """The base URLs of two llama.cpp servers over the same weights."""
    pytest.importorskip("xllamacpp", reason="llama.cpp needs the xllamacpp wheel, which this platform lacks")
    from tests.backends.llama import running_llama

    with running_llama() as one, running_llama() as other:
        yield one.base_url, other.base_url
