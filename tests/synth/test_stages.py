"""Graphs that take several kernels, and sizes that vary where operators take numbers: correct against fp64."""

from pathlib import Path
from typing import Any

import pytest
from running_programs import agrees, agrees_at, graph_of

from kernelwright.graph.types import Argument, Graph, Node, NumberType, Ref, Size, Symbol, TensorType, Value
from kernelwright.synth.library import program_of, schedules_of
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import ConvolutionSchedule, DepthwiseSchedule, ProductSchedule, Program
from kernelwright.synth.to_triton import print_triton, stages_of


def two_dimensions(b: Any) -> Any:
    x = b.input("x", "float32", (12, 30))
    row = b.op("aten.sum.dim_IntList", b.op("aten.exp.default", x), [1], True)
    column = b.op("aten.amax.default", b.op("aten.div.Tensor", x, row), [0], True)
    return b.op("aten.sub.Tensor", x, column)


def several_lengths(b: Any) -> Any:
    x, w = b.input("x", "bfloat16", (12, 30)), b.input("w", "bfloat16", (1,))
    scale = b.op("aten.exp.default", w)
    length = b.op("aten.linalg_vector_norm.default", x, 2, [1], True)
    return scale, b.op("aten.mul.Tensor", b.op("aten.div.Tensor", x, length), scale)


def two_maps(b: Any) -> Any:
    x, y = b.input("x", "float32", (5, 40)), b.input("y", "int64", (5,))
    return b.op("aten.silu.default", x), b.op("aten.gt.Scalar", y, 2)


def halves_of_a_norm(b: Any) -> Any:
    x = b.op(
        "aten.rms_norm.default", b.input("x", "float32", (7, 64)), [64], b.input("w", "float32", (64,)), 1e-6
    )
    left, right = b.op("aten.split_with_sizes.default", x, [32, 32], 1)
    return b.op("aten.mul.Tensor", left, b.op("aten.sigmoid.default", right))


def sums_after_a_scan(b: Any) -> Any:
    x = b.input("x", "float32", (6, 40))
    running = b.op("aten.cumsum.default", x, 1)
    return b.op("aten.sub.Tensor", b.op("aten.sum.dim_IntList", x, [1], True), running)


def softmax_of_softmax(b: Any) -> Any:
    x = b.input("x", "bfloat16", (6, 10, 8))
    return b.op("aten.softmax.int", b.op("aten.softmax.int", x, 1), 2)


def cross_entropy(b: Any) -> Any:
    x, y, w = b.input("x", "float32", (20, 11)), b.input("y", "int64", (20,)), b.input("w", "float32", (11,))
    return b.op("aten.cross_entropy_loss.default", x, y, b.op("aten.exp.default", w), 1, 3, 0.1)


def cross_entropy_of_images(b: Any) -> Any:
    x, y = b.input("x", "float32", (2, 5, 4, 3)), b.input("y", "int64", (2, 4, 3))
    return b.op("aten.cross_entropy_loss.default", x, y, None, 2)


SEVERAL = (two_dimensions, several_lengths, two_maps, halves_of_a_norm, sums_after_a_scan, softmax_of_softmax, cross_entropy,
           cross_entropy_of_images)  # fmt: skip


@pytest.mark.parametrize("make", SEVERAL, ids=lambda one: one.__name__)
def test_graphs_of_several_kernels_agree_with_fp64(make: Any, tmp_path: Path) -> None:
    graph = graph_of(make)
    assert len(stages_of(graph)) > 1
    assert agrees(graph, program_of(graph).schedule, tmp_path) == ""  # type: ignore[union-attr]
    assert len(schedules_of(graph)) > 1


def product_of_a_norm(b: Any) -> Any:
    x, w = b.input("x", "bfloat16", (40, 64)), b.input("w", "bfloat16", (48, 64), role="weight")
    normal = b.op("aten.layer_norm.default", x, [64], b.input("scale", "bfloat16", (64,)), None)
    return normal, b.op("aten.linear.default", normal, w)


def test_a_descriptor_is_made_of_what_an_earlier_kernel_stored(tmp_path: Path) -> None:
    graph = graph_of(product_of_a_norm)
    schedule = ProductSchedule(tile=(16, 16, 32), stages=2, warps=4, loads="descriptor")
    assert "from_tensor(out0, [16, 32])" in print_triton(Program(graph=graph, schedule=schedule))
    assert agrees(graph, schedule, tmp_path) == ""


def one_column(b: Any) -> Any:
    x, w = b.input("x", "bfloat16", (3, 9, 40)), b.input("w", "bfloat16", (1, 40), role="weight")
    return b.op("aten.linear.default", x, w, b.input("c", "bfloat16", (1,)))


def one_row(b: Any) -> Any:
    x, y = b.input("x", "float32", (5, 1, 24)), b.input("y", "float32", (5, 24, 17))
    return b.op("aten.gelu.default", b.op("aten.bmm.default", x, y))


def one_filter(b: Any) -> Any:
    x, w = b.input("x", "float32", (2, 20, 33)), b.input("w", "float32", (1, 20, 7), role="weight")
    return b.op(
        "aten.tanh.default",
        b.op("aten.convolution.default", x, w, b.input("c", "float32", (1,)), [2], [3], [1], False, [0], 1),
    )


def constant_rows(b: Any) -> Any:
    full = b.op("aten.full_like.default", b.input("x", "float32", (20, 40)), 0.5)
    return b.op("aten.linear.default", full, b.input("w", "float32", (33, 40), role="weight"))


def positional_variance(b: Any) -> Any:
    return b.op("aten.var_mean.dim", b.input("x", "float32", (4, 6, 5)), [1, 2], False, True)


def windows_of_a_row(b: Any) -> Any:
    x = b.op("aten.unfold.default", b.input("x", "float32", (2, 17, 3)), 1, 5, 2)
    return b.op("aten.mul.Tensor", x, 2.0)


def windows_as_columns(b: Any) -> Any:
    return b.op("aten.im2col.default", b.input("x", "float32", (2, 3, 7, 8)), [3, 2], [1, 1], [1, 0], [2, 1])


def several_tables(b: Any) -> Any:
    x, i, j = b.input("x", "float32", (6, 5, 4)), b.input("i", "int64", (7, 1)), b.input("j", "int64", (3,))
    return b.op("aten.index.Tensor", x, [i, j])


def lines_between(b: Any) -> Any:
    return b.op("aten.upsample_bilinear2d.vec", b.input("x", "float32", (2, 3, 5, 6)), [12, 9], False, None)


def lines_to_the_corners(b: Any) -> Any:
    return b.op("aten.upsample_bilinear2d.vec", b.input("x", "bfloat16", (2, 3, 5, 6)), [10, 4], True, None)


def cubics_between(b: Any) -> Any:
    return b.op("aten.upsample_bicubic2d.vec", b.input("x", "float32", (1, 2, 5, 6)), None, False, [2.0, 1.5])


def from_the_end(b: Any) -> Any:
    return b.op(
        "aten.relu.default", b.op("aten.slice.Tensor", b.input("x", "float32", (4, 20)), 1, -7, 2**63 - 1)
    )


SINGLE = (one_column, one_row, one_filter, constant_rows, positional_variance, windows_of_a_row, windows_as_columns, several_tables,
          lines_between, lines_to_the_corners, cubics_between, from_the_end)  # fmt: skip


@pytest.mark.parametrize("make", SINGLE, ids=lambda one: one.__name__)
def test_one_kernel_agrees_with_fp64(make: Any, tmp_path: Path) -> None:
    graph = graph_of(make)
    assert stages_of(graph) == ()
    assert agrees(graph, program_of(graph).schedule, tmp_path) == ""  # type: ignore[union-attr]


def tensor(*shape: int | str) -> TensorType:
    return TensorType(dtype="float32", shape=shape)


def graph_with_numbers() -> Graph:
    """One third of a projection as heads, whose number is a separate argument, and the last elements of another."""
    n, h, e = "s0", "s1", "s2"
    arguments = [("x", tensor(n, "3*s1*s2")), ("y", tensor(n, 1, e)), ("s1", NumberType(of="int"))]
    third, heads, last = Size(size="s1*s2"), (Size(size=n), Size(size=h), Size(size=e)), Size(size="s2-1")
    nodes = [
        Node(op="aten.split_with_sizes.default", args=(Ref(ref="x"), (third, third, third), 1),
             outputs=(None, Value(name="k", type=tensor(n, "s1*s2")), None)),
        Node(op="aten.reshape.default", args=(Ref(ref="k"), heads), outputs=(Value(name="r", type=tensor(n, h, e)),)),
        Node(op="aten.slice.Tensor", args=(Ref(ref="y"), 2, last, Size(size=e)), outputs=(Value(name="l", type=tensor(n, 1, 1)),)),
        Node(op="aten.mul.Tensor", args=(Ref(ref="r"), Ref(ref="l")), outputs=(Value(name="m", type=tensor(n, h, e)),)),
        Node(op="aten.div.Tensor", args=(Ref(ref="m"), Ref(ref="s1")), outputs=(Value(name="d", type=tensor(n, h, e)),)),
    ]  # fmt: skip
    return Graph(
        arguments=tuple(Argument(name=name, type=kind) for name, kind in arguments),
        nodes=tuple(nodes),
        results=("d",),
        symbols=tuple(Symbol(name=name, hint=hint) for name, hint in ((n, 6), (h, 4), (e, 8))),
    )


@pytest.mark.parametrize("chosen", [{"s0": 6, "s1": 4, "s2": 8}, {"s0": 5, "s1": 3, "s2": 11}], ids=str)
def test_numbers_and_sizes_that_vary_are_followed(chosen: dict[str, int], tmp_path: Path) -> None:
    assert agrees_at(graph_with_numbers(), chosen, tmp_path) == ""


def graph_of_windows(stride: int, grouped: bool) -> Graph:
    """A convolution whose window's size varies, with one filter for each channel or for all."""
    channels, side = "s0", f"(s2 - s1 + 2) // {stride} + 1" if stride > 1 else "s2 - s1 + 3"
    steps = ((stride, stride), (1, 1), (1, 1), False, (0, 0), Size(size=channels) if grouped else 1)
    made = Value(name="y", type=tensor(2, channels if grouped else "s3", side, side))
    x, w = (
        tensor(2, channels, "s2", "s2"),
        tensor(*((channels, 1) if grouped else ("s3", channels)), "s1", "s1"),
    )
    names = (("s0", 20), ("s1", 3), ("s2", 9), *((("s3", 17),) if not grouped else ()))
    return Graph(
        arguments=(Argument(name="x", type=x), Argument(name="w", type=w)),
        nodes=(
            Node(
                op="aten.convolution.default",
                args=(Ref(ref="x"), Ref(ref="w"), None, *steps),
                outputs=(made,),
            ),
        ),
        results=("y",),
        symbols=tuple(Symbol(name=name, hint=hint) for name, hint in names),
    )


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_size_of_a_window_is_followed(stride: int, grouped: bool, tmp_path: Path) -> None:
    graph = graph_of_windows(stride, grouped)
    chosen = {"s0": 6, "s1": 5, "s2": 8, "s3": 7}
    assert agrees_at(graph, {one.name: chosen[one.name] for one in graph.symbols}, tmp_path) == ""


@pytest.mark.parametrize("schedule", [
    ConvolutionSchedule(algorithm="direct"), DepthwiseSchedule(algorithm="patch", tile=(4, 4))
], ids=lambda one: one.nest)  # fmt: skip
def test_no_taps_are_unrolled_where_their_number_may_vary(schedule: Any) -> None:
    with pytest.raises(Unsupported, match="may vary"):
        print_triton(Program(graph=graph_of_windows(1, True), schedule=schedule))
