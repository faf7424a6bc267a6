"""Chooses and loads an embedder by its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..errors import ModelError
from ..interfaces import Embedder
from .http_embedder import HttpEmbedder
from .minilm import Precision
from .onnx_embedder import OnnxEmbedder

Kind = Literal["onnx", "sentence_transformers", "http"]


def open_embedder(
    kind: Kind,
    *,
    model: str,
    precision: Precision = "int8",
    url: str = "",
    revision: str = "",
    dimension: int = 0,
    window: int = 0,
    key: str | None = None,
    timeout_s: float = 2.0,
) -> Embedder:
    """`model` is the prepared folder ("onnx"), a folder or name for sentence-transformers, which keeps the precision
    of the weights, or the name at the endpoint ("http"; what follows `precision` is for that one). Blocking: reads
    tens of megabytes, imports torch, or asks the endpoint once. Raises `ModelError`."""
    if kind == "onnx":
        return OnnxEmbedder(Path(model), precision=precision)
    if kind == "http":
        embedder = HttpEmbedder(
            url,
            model=model,
            dimension=dimension,
            window=window,
            revision=revision,
            key=key,
            timeout_s=timeout_s,
        )
        embedder.probe()
        return embedder
    try:
        # Late: an extra of its own, and seconds of import.
        from .sentence_transformers_embedder import SentenceTransformersEmbedder
    except ImportError as error:
        raise ModelError(
            "the sentence_transformers embedder needs its library: "
            "pip install 'echogate[sentence-transformers]'"
        ) from error
    return SentenceTransformersEmbedder(model)
