"""An embedder for any model of the sentence-transformers library, which is an extra of its own.

Importing this file imports torch, which takes seconds: only `open_embedder` does, when that kind is chosen.
"""

from __future__ import annotations

import hashlib
from typing import Any

import sentence_transformers
import torch
from sentence_transformers import SentenceTransformer

from ..errors import ModelError
from ..model import Vector
from .minilm import cpu_class
from .readable import check_length, check_pieces


class SentenceTransformersEmbedder:
    """`model` is a folder, or a name the library can resolve. Raises `ModelError` if it cannot be loaded."""

    def __init__(self, model: str) -> None:
        try:
            self._model = SentenceTransformer(model, device="cpu")
        except (OSError, ValueError) as error:
            raise ModelError(f"sentence-transformers cannot load {model!r}: {error}") from error
        torch.set_num_threads(1)
        self._tokenizer: Any = self._model.tokenizer
        window, dimension = self._model.max_seq_length, self._model.get_embedding_dimension()
        if window is None or dimension is None:
            raise ModelError(
                f"{model!r} does not say how many word pieces it reads or how long its vectors are"
            )
        self._window: int = window
        self._dimension: int = dimension
        self._specials: int = self._tokenizer.num_special_tokens_to_add()
        self._fingerprint = _fingerprint(self._model)

    def __repr__(self) -> str:
        return f"SentenceTransformersEmbedder({self._fingerprint})"

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed(self, text: str) -> Vector:
        check_length(text, window=self._window)
        pieces: list[int] = self._tokenizer(text, truncation=False, verbose=False)["input_ids"]
        unknown = pieces.count(self._tokenizer.unk_token_id)
        check_pieces(pieces=len(pieces), specials=self._specials, unknown=unknown, window=self._window)
        vector: Vector = self._model.encode(text, normalize_embeddings=True, show_progress_bar=False)
        return vector

    def close(self) -> None:
        """Nothing to release but memory, which goes with the object."""


def _fingerprint(model: SentenceTransformer) -> str:
    """By the weights in memory: a name or a folder does not say what is in it."""
    digest = hashlib.sha256()
    precision = "none"
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
        precision = str(tensor.dtype).removeprefix("torch.")
    runtime = f"st{sentence_transformers.__version__.split('.')[0]}-torch{torch.__version__.split('.')[0]}"
    return f"{digest.hexdigest()[:16]}/window{model.max_seq_length}/{precision}/{runtime}/{cpu_class()}"
