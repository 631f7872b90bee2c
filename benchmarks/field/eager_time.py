"""What each node of a graph would take eager PyTorch on a GPU, modelled: traffic against arithmetic, and a launch.

    max(bytes / DRAM bandwidth, FLOPs / peak of the operands' dtype) + 5 us, views free

Bytes are those of the tensors read and written once; FLOPs are counted by `torch.utils.flop_counter`, for products,
convolutions and attention, and are nothing elsewhere. Only good for shares: which part of a module's time lies in which
nodes. Does not say what a GPU takes; caches, tails and library efficiency are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from kernelwright.graph import Graph, Node, operators
from kernelwright.graph.types import Ref, TensorType, refs_in
from kernelwright.hardware import Target

LAUNCH_US = 5.0
"""Of one eager operator: host and device together, where the host is not ahead."""


def node_times(graph: Graph, target: Target) -> list[float]:
    """Microseconds per node, in order. The graph has no symbols."""
    assert not graph.symbols, "modelled for static shapes"
    types = graph.types()
    return [_node_us(node, types, target) for node in graph.nodes]


def _node_us(node: Node, types: Mapping[str, Any], target: Target) -> float:
    if operators.kind(node.op) == "view":
        return 0.0
    read = [types[name] for name in dict.fromkeys(node.refs())]
    tensors = [one for one in read if isinstance(one, TensorType)]
    made = [one.type for one in node.outputs if one is not None and isinstance(one.type, TensorType)]
    moved = sum(_bytes(one) for one in (*tensors, *made)) / (target.dram_gb_s * 1e3)
    dtype = tensors[0].dtype if tensors else "float32"
    peak = target.peak_tflops.get(dtype, target.fp32_tflops)
    return max(moved, _flops(node, types) / (peak * 1e6)) + LAUNCH_US


def _bytes(one: TensorType) -> int:
    size = getattr(torch, one.dtype).itemsize
    return size * math.prod(int(dim) for dim in one.shape)


def _flops(node: Node, types: Mapping[str, Any]) -> float:
    if operators.kind(node.op) != "contraction":
        return 0.0
    op = operators.packet(node.op)
    out = next(one.type for one in node.outputs if one is not None)
    shapes = [types[name].shape for arg in node.args for name in refs_in(arg)]
    if op == "linear":
        return 2.0 * math.prod(out.shape) * shapes[0][-1]
    if op == "scaled_dot_product_attention":
        query, key, value = shapes[:3]
        return 2.0 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    counted = flop_registry.get(getattr(torch.ops.aten, op))
    if (
        counted is None
    ):  # conv2d and matmul are aliases of what the registry has; others have their length of sums
        return 2.0 * math.prod(out.shape) * _summed(op, node, shapes)
    return float(
        counted(*_meta(node.args, types), **_meta(dict(node.kwargs), types), out_val=_meta(out, types))
    )


def _summed(op: str, node: Node, shapes: list[tuple[int, ...]]) -> int:
    """Products per element of the result."""
    if op.startswith("conv"):
        return math.prod(shapes[1][1:])
    return shapes[0][-1]


def _meta(value: Any, types: Mapping[str, Any]) -> Any:
    """Tensors without values in place of references."""
    if isinstance(value, Ref):
        return _meta(types[value.ref], types)
    if isinstance(value, TensorType):
        return torch.empty(value.shape, dtype=getattr(torch, value.dtype), device="meta")
    if isinstance(value, tuple | list):
        return [_meta(one, types) for one in value]
    if isinstance(value, dict):
        return {key: _meta(one, types) for key, one in value.items()}
    return value
