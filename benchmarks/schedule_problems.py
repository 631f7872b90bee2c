"""Problems that `schedules.py` measures: products, rows, reductions, maps, attention, convolutions, scans and pooling, as graphs.

Sizes are round, and exceed L2 where memory is the limit. Ordered by interest, so that a run that stops
early has measured the most interesting ones.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelwright.graph import sizes
from kernelwright.graph.types import Graph, TensorType
from kernelwright.records import Task, read_jsonl
from kernelwright.synth.building import GraphBuilder, Handle

Vendor = Callable[[dict[str, torch.Tensor]], Callable[[], Any]]


@dataclasses.dataclass(frozen=True)
class Problem:
    """A graph, the precision of its reference, and a vendor's call for comparison."""

    name: str
    graph: Graph
    precision: str = "default"
    vendor: Vendor | None = None
    source: str = ""
    """The source of a task in function form, whose `get_inputs` draws the arguments."""
    positive: frozenset[str] = frozenset()
    """Arguments to draw as positive numbers, such as variances."""

    @property
    def bytes(self) -> int:
        """Bytes moved if arguments are read once and results written once."""
        types = self.graph.types()
        names = [*(one.name for one in self.graph.arguments), *self.graph.results]
        return sum(_bytes(types[name]) for name in names)


def problems_of(path: Path) -> list[Problem]:
    """The tasks of a corpus (`data make`, its `tasks.jsonl` or parts) at full size."""
    return [problem_of(task) for task in read_jsonl(path, Task)]


def problem_of(task: Task) -> Problem:
    """A task at full size."""
    return Problem(
        task.id, sizes.static(Graph.model_validate_json(task.graph), {}), task.precision, source=task.source
    )


def _bytes(kind: Any) -> int:
    assert isinstance(kind, TensorType)
    return (
        math.prod(int(size) for size in kind.shape)
        * torch.empty(0, dtype=getattr(torch, kind.dtype)).element_size()
    )


def _made(
    name: str,
    make: Callable[[GraphBuilder], Handle],
    precision: str = "default",
    vendor: Vendor | None = None,
) -> Problem:
    builder = GraphBuilder(name.replace("/", "_"))
    return Problem(name, builder.graph(make(builder)), precision, vendor)


def _product(
    name: str, m: int, n: int, k: int, dtype: str, epilogue: str = "", precision: str = "default"
) -> Problem:
    def make(b: GraphBuilder) -> Handle:
        x, w = b.input("x", dtype, (m, k)), b.input("w", dtype, (n, k), role="weight")
        if not epilogue:
            return b.op("aten.linear.default", x, w)
        y = b.op("aten.linear.default", x, w, b.input("bias", dtype, (n,), role="weight"))
        return b.op(epilogue, y)

    def vendor(values: dict[str, torch.Tensor]) -> Callable[[], Any]:
        x, w = values["x"], values["w"]
        return lambda: torch.nn.functional.linear(x, w)

    return _made(name, make, precision, None if epilogue else vendor)


def _unary(name: str, op: str, shape: tuple[int, ...], dtype: str, *args: Any, **kwargs: Any) -> Problem:
    return _made(name, lambda b: b.op(op, b.input("x", dtype, shape), *args, **kwargs))


def _norm(name: str, op: str, shape: tuple[int, ...], dtype: str, width: int) -> Problem:
    def make(b: GraphBuilder) -> Handle:
        x, w = b.input("x", dtype, shape), b.input("w", dtype, (width,), role="weight")
        if op == "layer_norm":
            return b.op(
                "aten.layer_norm.default", x, [width], w, b.input("bias", dtype, (width,), role="weight")
            )
        if op == "rms_norm":
            return b.op("aten.rms_norm.default", x, [width], w, 1e-6)
        return b.op("aten.group_norm.default", x, 32, w, b.input("bias", dtype, (width,), role="weight"))

    return _made(name, make)


def _attention(name: str, shape: tuple[int, ...], dtype: str, causal: bool) -> Problem:
    def make(b: GraphBuilder) -> Handle:
        q, k, v = (b.input(one, dtype, shape) for one in "qkv")
        return b.op("aten.scaled_dot_product_attention.default", q, k, v, None, 0.0, causal)

    return _made(name, make)


def _convolution(
    name: str, x: tuple[int, ...], w: tuple[int, ...], dtype: str, stride: int, padding: int, groups: int = 1
) -> Problem:
    def make(b: GraphBuilder) -> Handle:
        args = (
            b.input("x", dtype, x),
            b.input("w", dtype, w, role="weight"),
            b.input("bias", dtype, w[:1], role="weight"),
        )
        y = b.op("aten.conv2d.default", *args, [stride, stride], [padding, padding], [1, 1], groups)
        return b.op("aten.relu.default", y)

    def vendor(values: dict[str, torch.Tensor]) -> Callable[[], Any]:
        last = torch.channels_last
        image, weight = values["x"].to(memory_format=last), values["w"].to(memory_format=last)
        return lambda: torch.relu(
            torch.nn.functional.conv2d(image, weight, values["bias"], stride, padding, 1, groups)
        )

    return _made(name, make, "default", vendor)


def _loss(name: str, op: str, shape: tuple[int, ...], dtype: str) -> Problem:
    return _made(name, lambda b: b.op(op, b.input("x", dtype, shape), b.input("y", dtype, shape)))


def _swiglu(name: str, shape: tuple[int, ...], dtype: str) -> Problem:
    def make(b: GraphBuilder) -> Handle:
        gate, up = b.input("gate", dtype, shape), b.input("up", dtype, shape)
        return b.op("aten.mul.Tensor", b.op("aten.silu.default", gate), up)

    return _made(name, make)


def _turned(name: str, shape: tuple[int, int, int], dtype: str) -> Problem:
    def make(b: GraphBuilder) -> Handle:
        turned = b.op("aten.permute.default", b.input("x", dtype, shape), [0, 2, 1])
        return b.op("aten.mul.Tensor", turned, b.input("y", dtype, (shape[0], shape[2], shape[1])))

    return _made(name, make)


def problems() -> list[Problem]:
    """All problems, ordered by interest."""
    gelu, big = "aten.gelu.default", (8192, 8192)
    found = [
        _product("product/1024x8192x8192/bf16/gelu", 1024, 8192, 8192, "bfloat16", gelu),
        _product("product/4096x4096x4096/bf16", 4096, 4096, 4096, "bfloat16"),
        _product("product/16x8192x8192/bf16", 16, 8192, 8192, "bfloat16"),
        _attention("attention/4x16x2048x64/bf16/causal", (4, 16, 2048, 64), "bfloat16", True),
        _attention("attention/2x16x4096x128/bf16", (2, 16, 4096, 128), "bfloat16", False),
        _norm("row/layer_norm/16384x4096/bf16", "layer_norm", (16384, 4096), "bfloat16", 4096),
        _unary("row/softmax/16384x4096/bf16", "aten.softmax.int", (16384, 4096), "bfloat16", -1),
        _unary("row/sum_all/8192x8192/bf16", "aten.sum.default", big, "bfloat16"),
        _unary("row/sum_columns/8192x8192/bf16", "aten.sum.dim_IntList", big, "bfloat16", [0]),
        _swiglu("map/swiglu/8192x8192/bf16", big, "bfloat16"),
        _product("product/1024x8192x8192/bf16", 1024, 8192, 8192, "bfloat16"),
        _product("product/4096x4096x4096/bf16/gelu", 4096, 4096, 4096, "bfloat16", gelu),
        _convolution("conv/3x3/32x256x56/bf16", (32, 256, 56, 56), (256, 256, 3, 3), "bfloat16", 1, 1),
        _convolution("conv/1x1/32x256x56/bf16", (32, 256, 56, 56), (512, 256, 1, 1), "bfloat16", 1, 0),
        _convolution("conv/3x3/128x64x128/bf16", (128, 64, 128, 128), (128, 64, 3, 3), "bfloat16", 1, 1),
        _convolution("conv/3x3s2/32x128x56/bf16", (32, 128, 56, 56), (256, 128, 3, 3), "bfloat16", 2, 1),
        _convolution(
            "conv/depthwise/32x256x56/bf16", (32, 256, 56, 56), (256, 1, 3, 3), "bfloat16", 1, 1, 256
        ),
        _norm("row/rms_norm/8192x8192/bf16", "rms_norm", big, "bfloat16", 8192),
        _norm("row/group_norm/32x256x56/bf16", "group_norm", (32, 256, 56, 56), "bfloat16", 256),
        _unary("row/softmax/4096x32000/bf16", "aten.softmax.int", (4096, 32000), "bfloat16", -1),
        _unary("row/log_softmax/16384x4096/fp32", "aten.log_softmax.int", (16384, 4096), "float32", -1),
        _unary("row/mean_rows/8192x8192/fp32", "aten.mean.dim", big, "float32", [1]),
        _unary("row/amax_middle/64x1024x1024/bf16", "aten.amax.default", (64, 1024, 1024), "bfloat16", [1]),
        _unary("row/argmax_rows/8192x8192/bf16", "aten.argmax.default", big, "bfloat16", 1),
        _loss("row/mse/8192x8192/bf16", "aten.mse_loss.default", big, "bfloat16"),
        _loss("row/smooth_l1/8192x8192/fp32", "aten.smooth_l1_loss.default", big, "float32"),
        _unary("map/gelu/8192x8192/bf16", gelu, big, "bfloat16"),
        _unary("map/tanh/8192x8192/fp32", "aten.tanh.default", big, "float32"),
        _turned("map/turned/64x1024x1024/bf16", (64, 1024, 1024), "bfloat16"),
        _product("product/4096x4096x4096/tf32", 4096, 4096, 4096, "float32", precision="tf32"),
        _product("product/1024x8192x8192/tf32/gelu", 1024, 8192, 8192, "float32", gelu, "tf32"),
        _product("product/64x8192x8192/bf16", 64, 8192, 8192, "bfloat16"),
        _product("product/2048x2048x2048/fp32", 2048, 2048, 2048, "float32"),
        _unary("scan/cumsum/16384x4096/fp32", "aten.cumsum.default", (16384, 4096), "float32", 1),
        _unary(
            "window/max_pool/64x64x112/bf16",
            "aten.max_pool2d.default",
            (64, 64, 112, 112),
            "bfloat16",
            [3, 3],
            [2, 2],
            [1, 1],
        ),
        _unary(
            "window/avg_pool/64x64x112/bf16",
            "aten.avg_pool2d.default",
            (64, 64, 112, 112),
            "bfloat16",
            [2, 2],
        ),
        _attention("attention/2x16x4096x128/bf16/causal", (2, 16, 4096, 128), "bfloat16", True),
        _attention("attention/4x16x2048x64/fp32/causal", (4, 16, 2048, 64), "float32", True),
    ]
    return found
