"""The default embedder: MiniLM from a prepared folder, on ONNX Runtime, one text at a time on one thread.

One text a call because int8 results depend on what else is in the batch. One thread because two were never
faster and spinning threads take the cores from everybody else.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from ..errors import ModelError
from ..model import Vector
from . import minilm
from .manifest import Manifest
from .readable import check_length, check_pieces

_SPECIALS = 2  # [CLS] and [SEP]
_ERRORS_ONLY = 3


class OnnxEmbedder:
    """Loads a folder that `prepare` made.

    Raises `ModelError` if it is missing, tampered with, or made for another processor.
    """

    def __init__(self, folder: Path, *, precision: minilm.Precision = "int8") -> None:
        manifest = Manifest.read(folder)
        cpu = minilm.cpu_class()
        if precision == "int8" and manifest.cpu != cpu:
            raise ModelError(
                f"the int8 model in {folder} was built for a {manifest.cpu} processor and this one is {cpu}: "
                "prepare it again on this machine, or use precision fp32"
            )
        self._session = _session(manifest.verified(folder, minilm.GRAPHS[precision]))
        self._tokenizer = Tokenizer.from_str(manifest.verified(folder, minilm.TOKENIZER).decode())
        # The published file pads every text to 128 pieces and cuts it there.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._unknown = self._tokenizer.get_vocab()[minilm.UNKNOWN]
        major = int(onnxruntime.__version__.split(".")[0])
        self._fingerprint = minilm.fingerprint(precision, runtime_major=major)

    def __repr__(self) -> str:
        return f"OnnxEmbedder({self._fingerprint})"

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def dimension(self) -> int:
        return minilm.DIMENSION

    def embed(self, text: str) -> Vector:
        check_length(text, window=minilm.WINDOW)
        pieces = self._tokenizer.encode(text).ids
        unknown = pieces.count(self._unknown)
        check_pieces(pieces=len(pieces), specials=_SPECIALS, unknown=unknown, window=minilm.WINDOW)
        ids = np.array([pieces], dtype=np.int32)
        vectors = self._session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
        vector: Vector = vectors[0]
        return vector

    def close(self) -> None:
        """Nothing to release but memory, which goes with the object."""


def _session(graph: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.log_severity_level = _ERRORS_ONLY
    # The arena never gives memory back: one long text would keep its peak for good.
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
