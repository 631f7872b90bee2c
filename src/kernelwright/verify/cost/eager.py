"""Modelled time of a graph in ATen, operator by operator, on a target: where a module spends its time.

A roofline per operator: bytes read and written over the memory bandwidth, or operations of contractions over the peak of
their dtype, plus one launch. Good for ranking and for shares; prefer a measured time if there is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kernelwright.graph import Graph, Node, TensorType, operators, sizes
from kernelwright.graph.execute import DTYPES
from kernelwright.graph.partition import part_of
from kernelwright.graph.types import NumberType, refs_in
from kernelwright.hardware import Target

BY_INDEX = frozenset(
    [
        "embedding", "gather", "index", "index_select", "nll_loss_forward", "nll_loss2d_forward", "take",
        "_embedding_bag",
    ]
)  # fmt: skip
"""Operators that read only the elements an index selects."""

Types = Mapping[str, TensorType | NumberType]


def eager_ms(graph: Graph, target: Target, nodes: Iterable[Node] | None = None) -> float:
    """Modelled milliseconds of one pass, or of some of its `nodes`, at the sizes that the graph was captured with."""
    types = graph.types()
    hints = {one.name: one.hint for one in graph.symbols}
    counted = graph.nodes if nodes is None else nodes
    return math.fsum(_node_ms(node, types, hints, target) for node in counted if part_of(node) != "free")


def _node_ms(node: Node, types: Types, hints: Mapping[str, int], target: Target) -> float:
    made = [value.type for value in node.outputs if value is not None]
    written = [_elements(one, hints) * _width(one) for one in made]
    read = [_elements(types[name], hints) * _width(types[name]) for name in dict.fromkeys(node.refs())]
    if read and operators.packet(node.op) in BY_INDEX:
        read[0] = min(read[0], max([*written, *read[1:]]))
    memory_ms = sum([*written, *read]) / target.dram_gb_s / 1e6
    tflops = target.peak_tflops.get(_dtype(made), target.fp32_tflops)
    flops_ms = _flops(node, types, hints) / tflops / 1e9
    return max(memory_ms, flops_ms) + target.launch_us / 1e3


def _flops(node: Node, types: Types, hints: Mapping[str, int]) -> float:
    """Two per multiply-add of a contraction or recurrent layer; 0 for any other operator."""
    name = operators.packet(node.op)
    if name in operators.RECURRENT:
        x, *weights = (types[ref] for ref in refs_in((node.args[0], node.args[2])))
        assert isinstance(x, TensorType)
        cells = _elements(x, hints) // max(sizes.evaluate(x.shape[-1], hints), 1)
        return 2.0 * cells * sum(_elements(one, hints) for one in weights)
    if operators.kind(node.op) != "contraction":
        return 0.0
    read = [one for one in (types[ref] for ref in node.refs()) if isinstance(one, TensorType)]
    made = sum(_elements(one.type, hints) for one in node.outputs if one is not None)
    if not read:
        return 0.0
    shapes = [[sizes.evaluate(size, hints) for size in one.shape] for one in read]
    if "attention" in name and len(shapes) > 1:
        return 4.0 * made * shapes[1][-2]
    if "convolution" in name and len(shapes) > 1:
        return 2.0 * made * math.prod(shapes[1][1:])
    first = shapes[1] if name in ("addmm", "baddbmm") and len(shapes) > 1 else shapes[0]
    return 2.0 * made * (first[-1] if first else 1)


def _elements(one: TensorType | NumberType, hints: Mapping[str, int]) -> int:
    return math.prod(sizes.evaluate(size, hints) for size in one.shape) if isinstance(one, TensorType) else 0


def _width(one: TensorType | NumberType) -> int:
    return DTYPES[one.dtype].itemsize if isinstance(one, TensorType) else 0


def _dtype(made: list[TensorType | NumberType]) -> str:
    return next((one.dtype for one in made if isinstance(one, TensorType)), "float32")
