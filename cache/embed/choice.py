"""Chooses and loads an embedder by its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..errors import ModelError
from ..interfaces import Embedder
from .minilm import Precision
from .onnx_embedder import OnnxEmbedder

Kind = Literal["onnx", "sentence_transformers"]


def open_embedder(kind: Kind, *, model: str, precision: Precision = "int8") -> Embedder:
    """`model` is the prepared folder ("onnx"), or a folder or name for sentence-transformers, which keeps the
    precision of the weights. Blocking: reads tens of megabytes, or imports torch. Raises `ModelError`."""
    if kind == "onnx":
        return OnnxEmbedder(Path(model), precision=precision)
    try:
        # Late: an extra of its own, and seconds of import.
        from .sentence_transformers_embedder import SentenceTransformersEmbedder
    except ImportError as error:
        raise ModelError(
            "the sentence_transformers embedder needs its library: "
            "pip install 'echogate[sentence-transformers]'"
        ) from error
    return SentenceTransformersEmbedder(model)
