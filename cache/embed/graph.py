"""Builds the MiniLM graphs from the published weights, without torch: fused, pooling and unit length inside.

Needs the extra `echogate[models]` (onnx, safetensors). The operators of the `com.microsoft` domain are ONNX
Runtime's own fused ones. Inputs `input_ids` and `attention_mask` (int32, batch x tokens); output `vector`
(float32, batch x 384, unit length).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file

from .minilm import CONFIG, DIMENSION, WEIGHTS

_FUSED = "com.microsoft"
_OPSET = 17
Weights = dict[str, NDArray[np.float32]]


def build_fp32(source: Path, target: Path) -> None:
    weights: Weights = load_file(source / WEIGHTS)
    config = json.loads((source / CONFIG).read_text(encoding="utf-8"))
    graph = _Graph()
    hidden = _embeddings(graph, weights, epsilon=config["layer_norm_eps"])
    for number in range(config["num_hidden_layers"]):
        hidden = _layer(
            graph,
            weights,
            hidden,
            prefix=f"encoder.layer.{number}",
            heads=config["num_attention_heads"],
            epsilon=config["layer_norm_eps"],
        )
    _pool(graph, hidden)
    onnx.save(graph.model(), str(target))


def build_int8(fp32: Path, target: Path, *, has_exact_int8: bool) -> None:
    """Dynamic quantisation; 7-bit weights on processors whose 8-bit sums would saturate."""
    quantize_dynamic(
        fp32,
        target,
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=not has_exact_int8,
        # Shape inference knows nothing of the fused operators; without this the quantiser gives up on them.
        extra_options={"DefaultTensorType": TensorProto.FLOAT},
    )


class _Graph:
    """Nodes and constants in the order they are made; every output is named after its node."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(
        self,
        operator: str,
        name: str,
        *inputs: str,
        domain: str = "",
        unused: int = 0,
        **attributes: float | int | list[int],
    ) -> str:
        outputs = [name, *(f"{name}.unused{number}" for number in range(unused))]
        made = helper.make_node(operator, inputs, outputs, name, None, domain, None, **attributes)
        self._nodes.append(made)
        return name

    def model(self) -> onnx.ModelProto:
        tokens = ["batch", "tokens"]
        graph = helper.make_graph(
            self._nodes,
            "minilm",
            [
                helper.make_tensor_value_info("input_ids", TensorProto.INT32, tokens),
                helper.make_tensor_value_info("attention_mask", TensorProto.INT32, tokens),
            ],
            [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["batch", DIMENSION])],
            self._constants,
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_FUSED, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="echogate")
        # The graph is fused as it is built; without this mark the quantiser advises to do that first.
        helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})
        return model


def _embeddings(graph: _Graph, weights: Weights, *, epsilon: float) -> str:
    # One text is one segment, so the segment's row can be added to every position once and for all.
    positions = weights["embeddings.position_embeddings.weight"]
    positions = positions + weights["embeddings.token_type_embeddings.weight"][0]
    return graph.node(
        "EmbedLayerNormalization",
        "embedded",
        "input_ids",
        "",
        graph.constant("words", weights["embeddings.word_embeddings.weight"]),
        graph.constant("positions", positions),
        "",
        graph.constant("embedded.gamma", weights["embeddings.LayerNorm.weight"]),
        graph.constant("embedded.beta", weights["embeddings.LayerNorm.bias"]),
        domain=_FUSED,
        unused=1,  # its shape inference insists on a second output, an index of the mask
        epsilon=epsilon,
    )


def _layer(graph: _Graph, weights: Weights, hidden: str, *, prefix: str, heads: int, epsilon: float) -> str:
    def constant(name: str, value: NDArray[np.float32]) -> str:
        return graph.constant(f"{prefix}.{name}", value)

    def weight(name: str) -> NDArray[np.float32]:
        return weights[f"{prefix}.{name}.weight"].T

    def bias(name: str) -> NDArray[np.float32]:
        return weights[f"{prefix}.{name}.bias"]

    def normalised(name: str, branch: str, skip: str, *, dense: str, norm: str) -> str:
        return graph.node(
            "SkipLayerNormalization",
            f"{prefix}.{name}",
            branch,
            skip,
            constant(f"{name}.gamma", weights[f"{prefix}.{norm}.weight"]),
            constant(f"{name}.beta", bias(norm)),
            constant(f"{name}.bias", bias(dense)),
            domain=_FUSED,
            epsilon=epsilon,
        )

    parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
    attended = graph.node(
        "Attention",
        f"{prefix}.attended",
        hidden,
        constant("qkv.weight", np.concatenate([weight(part) for part in parts], axis=1)),
        constant("qkv.bias", np.concatenate([bias(part) for part in parts])),
        "attention_mask",
        domain=_FUSED,
        num_heads=heads,
    )
    output = "attention.output.dense"
    projected = graph.node("MatMul", f"{prefix}.projected", attended, constant("projection", weight(output)))
    middle = normalised("middle", projected, hidden, dense=output, norm="attention.output.LayerNorm")

    raised = graph.node("MatMul", f"{prefix}.raised", middle, constant("up", weight("intermediate.dense")))
    bent = graph.node(
        "BiasGelu", f"{prefix}.bent", raised, constant("up.bias", bias("intermediate.dense")), domain=_FUSED
    )
    lowered = graph.node("MatMul", f"{prefix}.lowered", bent, constant("down", weight("output.dense")))
    return normalised("out", lowered, middle, dense="output.dense", norm="output.LayerNorm")


def _pool(graph: _Graph, hidden: str) -> None:
    """The mean over the tokens that are there, then unit length."""
    tokens_axis = graph.constant("tokens_axis", np.array([1], np.int64))
    last_axis = graph.constant("last_axis", np.array([2], np.int64))
    least = graph.constant("least", np.array(1e-9, np.float32))
    present = graph.node("Cast", "present", "attention_mask", to=TensorProto.FLOAT)
    column = graph.node("Unsqueeze", "column", present, last_axis)
    kept = graph.node("Mul", "kept", hidden, column)
    total = graph.node("ReduceSum", "total", kept, tokens_axis, keepdims=0)
    # The length of the mean cancels out in the division by the norm, so the count of tokens is never needed.
    norm = graph.node("ReduceL2", "norm", total, axes=[1], keepdims=1)
    graph.node("Div", "vector", total, graph.node("Max", "length", norm, least))
