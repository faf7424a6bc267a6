"""Owns the vectors of a benchmark's texts: embeds each once with the real model and keeps them between runs."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cache import Embedder, UnfitText, open_embedder
from tests.cache.prepared import prepared_model

_EVERY = 2_000

Vectors = NDArray[np.float32]  # one row a text; all zero for a text that the embedder cannot read


def embedded(texts: Sequence[str]) -> Vectors:
    """Unit vectors by the default embedder (int8, one text a call), in the order of the texts."""
    embedder = open_embedder("onnx", model=str(prepared_model()))
    kept = _folder() / f"{_digest(embedder.fingerprint, texts)}.npy"
    try:
        vectors: Vectors = np.load(kept)
    except FileNotFoundError:
        vectors = np.stack([_vector(embedder, text, at) for at, text in enumerate(texts)])
        with kept.with_suffix(f".{os.getpid()}").open("wb") as unfinished:
            np.save(unfinished, vectors)
        Path(unfinished.name).rename(kept)
    embedder.close()
    return vectors


def _vector(embedder: Embedder, text: str, at: int) -> NDArray[np.float32]:
    if at and at % _EVERY == 0:
        print(f"embedded {at} texts", file=sys.stderr, flush=True)
    try:
        return embedder.embed(text)
    except UnfitText:
        return np.zeros(embedder.dimension, dtype=np.float32)


def _folder() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "echogate-bench"
    root.mkdir(parents=True, exist_ok=True)
    return root


def _digest(fingerprint: str, texts: Sequence[str]) -> str:
    said = hashlib.sha256(fingerprint.encode())
    for text in texts:
        said.update(b"\0" + text.encode())
    return said.hexdigest()[:24]
