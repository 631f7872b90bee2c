"""Every nest's kernels are correct, in the judge's interpreter, at sizes that no tile divides."""

from pathlib import Path
from typing import Any

import pytest
import torch
from running_programs import agrees, compare, draw, graph_of

from kernelwright.graph.shrink import with_symbols
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import (
    AttentionSchedule,
    ConvolutionSchedule,
    DepthwiseSchedule,
    MapSchedule,
    ProductSchedule,
    Program,
    RowSchedule,
    ScanSchedule,
    TransposeSchedule,
)
from kernelwright.synth.to_triton import print_triton

SMALL = {"tile": (32, 32, 32), "warps": 4, "group": 2}


def linear_gelu(m: int, n: int, k: int, dtype: str = "bfloat16") -> Any:
    return graph_of(lambda b: b.op("aten.gelu.default", b.op(
        "aten.linear.default", b.input("x", dtype, (m, k)), b.input("w", dtype, (n, k), role="weight"),
        b.input("c", dtype, (n,), role="weight"))))  # fmt: skip


def layer_norm() -> Any:
    return graph_of(lambda b: b.op("aten.layer_norm.default", b.input("x", "bfloat16", (3, 5, 100)), [100],
                                   b.input("w", "bfloat16", (100,)), b.input("c", "bfloat16", (100,))))  # fmt: skip


def attention(dtype: str, causal: bool, *mask: str) -> Any:
    def make(b: Any) -> Any:
        q, k, v = (b.input(name, dtype, (2, 3, 48, 32)) for name in "qkv")
        masks = [b.input("mask", mask[0], (48, 48))] if mask else [None]
        return b.op("aten.scaled_dot_product_attention.default", q, k, v, *masks, 0.0, causal)

    return graph_of(make)


PRODUCTS = {
    "pointers": ProductSchedule(**SMALL),
    "descriptors": ProductSchedule(**SMALL, loads="descriptor"),
    "persistent in pieces": ProductSchedule(**SMALL, loads="descriptor", persistent=True, epilogue=2),
    "persistent, loops as one": ProductSchedule(
        **SMALL, loads="descriptor", persistent=True, flat=True, epilogue=2
    ),
    "split contraction": ProductSchedule(**SMALL, split_k=3),
    "split with descriptors": ProductSchedule(**SMALL, split_k=2, loads="descriptor"),
}


@pytest.mark.parametrize("how", PRODUCTS)
@pytest.mark.parametrize("sizes", [(70, 48, 200), (33, 49, 71)], ids=["aligned", "odd"])
def test_products_agree_with_fp64(how: str, sizes: tuple[int, int, int], tmp_path: Path) -> None:
    assert agrees(linear_gelu(*sizes), PRODUCTS[how], tmp_path) == ""


ROWS = {
    "one_pass": RowSchedule(),
    "several rows": RowSchedule(rows=4),
    "loop": RowSchedule(passes="loop", block=32, rows=2),
}


@pytest.mark.parametrize("how", ROWS)
def test_rows_agree_with_fp64(how: str, tmp_path: Path) -> None:
    assert agrees(layer_norm(), ROWS[how], tmp_path) == ""


GRAPHS = {
    "softmax over the middle": (lambda b: b.op("aten.softmax.int", b.input("x", "float32", (6, 7, 9)), 1),
                                RowSchedule(passes="loop", block=4, rows=16)),
    "everything summed": (lambda b: b.op("aten.sum.default", b.input("x", "float32", (60, 70))),
                          RowSchedule(passes="split", split=8, block=64)),
    "columns summed": (lambda b: b.op("aten.sum.dim_IntList", b.input("x", "float32", (60, 70)), [0]),
                       RowSchedule(passes="split", split=8, block=8, rows=16)),
    "argmax": (lambda b: b.op("aten.argmax.default", b.input("x", "float32", (60, 70)), 1),
               RowSchedule(passes="loop", block=16)),
    "group norm": (lambda b: b.op("aten.group_norm.default", b.input("x", "float32", (2, 8, 4, 5)), 2,
                                  b.input("w", "float32", (8,)), b.input("c", "float32", (8,))), RowSchedule()),
    "two results": (lambda b: b.op("aten.var_mean.correction", b.input("x", "float32", (60, 70)), [1], correction=1),
                    RowSchedule()),
    "numbers made tensors": (lambda b: b.op("aten.where.self", b.op("aten.gt.Scalar", b.input("x", "float32", (3, 50)), 0.5),
        b.op("aten.scalar_tensor.default", 2.5), b.op("aten.scalar_tensor.default", -1.0)), MapSchedule(block=64)),
    "halves": (lambda b: b.op("aten.glu.default", b.input("x", "float32", (2, 8, 4, 5)), 1), MapSchedule(block=64)),
    "joined": (lambda b: b.op("aten.cat.default", [b.input("x", "float32", (2, 3, 9)), b.input("y", "float32", (2, 4, 9))], 1),
               MapSchedule(block=64)),
    "padded": (lambda b: b.op("aten.constant_pad_nd.default", b.input("x", "float32", (2, 3, 9)), [1, 2, 0, 1], 1.5),
               MapSchedule(block=64)),
    "looked up": (lambda b: b.op("aten.embedding.default", b.input("x", "float32", (12, 9)), b.input("i", "int64", (4, 3))),
                  MapSchedule(block=64)),
    "max pooling": (lambda b: b.op("aten.max_pool2d.default", b.input("x", "float32", (2, 3, 9, 9)), [3, 3], [2, 2], [1, 1]),
                    MapSchedule(block=64)),
    "average without padding": (lambda b: b.op("aten.avg_pool2d.default", b.input("x", "float32", (2, 3, 9, 9)), [3, 3], [2, 2],
                                               [1, 1], False, False), MapSchedule(block=64)),
    "integers": (lambda b: b.op("aten.where.self", b.op("aten.gt.Scalar", b.input("x", "int64", (12, 9)), 1),
                                b.op("aten.floor_divide.default", b.op("aten.sub.Tensor", b.input("y", "int64", (12, 9)), 9), 4),
                                b.op("aten.remainder.Scalar", b.input("z", "int64", (9,)), 3)), MapSchedule(block=64)),
    "batches": (lambda b: b.op("aten.bmm.default", b.input("x", "bfloat16", (3, 33, 40)), b.input("y", "bfloat16", (3, 40, 50))),
                ProductSchedule(**SMALL)),
    "running sums": (lambda b: b.op("aten.cumsum.default", b.op("aten.mul.Tensor", b.input("x", "float32", (5, 70)), 2.0), 1),
                     ScanSchedule(block=32)),
    "running products of columns": (lambda b: b.op("aten.cumprod.default", b.input("x", "float32", (20, 7)), 0),
                                    ScanSchedule(rows=4, block=8)),
    "running sums from the end": (lambda b: b.op("aten.flip.default", b.op("aten.cumsum.default", b.op(
        "aten.flip.default", b.input("x", "float32", (5, 40)), [1]), 1), [1]), ScanSchedule(block=16)),
    "online softmax": (lambda b: b.op("aten.softmax.int", b.input("x", "float32", (6, 70)), 1),
                       RowSchedule(passes="online", block=32, rows=2)),
    "online log softmax": (lambda b: b.op("aten.log_softmax.int", b.op("aten.mul.Tensor", b.input("x", "bfloat16", (6, 70)), 3.0), 1),
                           RowSchedule(passes="online", block=64)),
    "a turned map": (lambda b: b.op("aten.add.Tensor", b.op("aten.permute.default", b.input("x", "float32", (3, 40, 35)), [0, 2, 1]),
                                    b.input("y", "float32", (3, 35, 40))), TransposeSchedule(tile=(32, 16))),
    "a turned operand": (lambda b: b.op("aten.mm.default", b.op("aten.t.default", b.input("x", "bfloat16", (40, 33))),
                                        b.input("y", "bfloat16", (40, 50))), ProductSchedule(**SMALL)),
    "heads of a projection": (lambda b: b.op("aten.permute.default", b.op("aten.view.default", b.op(
        "aten.linear.default", b.input("x", "bfloat16", (2, 17, 40)), b.input("w", "bfloat16", (48, 40))),
        [2, 17, 4, 12]), [0, 2, 1, 3]), ProductSchedule(**SMALL)),
}  # fmt: skip


@pytest.mark.parametrize("what", GRAPHS)
def test_graphs_agree_with_fp64(what: str, tmp_path: Path) -> None:
    make, schedule = GRAPHS[what]
    assert agrees(graph_of(make), schedule, tmp_path) == ""


@pytest.mark.parametrize("loads", ["pointer", "descriptor"])
@pytest.mark.parametrize(
    "graph", [attention("bfloat16", True), attention("float32", False)], ids=["causal", "all keys"]
)
def test_attention_agrees_with_fp64(graph: Any, loads: Any, tmp_path: Path) -> None:
    assert agrees(graph, AttentionSchedule(tile=(32, 16), warps=4, loads=loads), tmp_path) == ""


@pytest.mark.parametrize("first", ["long", "heads"])
def test_attention_begins_with_other_queries(first: Any, tmp_path: Path) -> None:
    schedule = AttentionSchedule(tile=(32, 16), warps=4, loads="descriptor", first=first, precision="tf32x3")
    assert agrees(attention("float32", True), schedule, tmp_path) == ""


@pytest.mark.parametrize("mask", ["bool", "float32"])
def test_attention_takes_masks(mask: str, tmp_path: Path) -> None:
    assert (
        agrees(attention("float32", False, mask), AttentionSchedule(tile=(32, 16), warps=4), tmp_path) == ""
    )


def test_attention_of_a_single_query_sums_over_fewer_heads_of_keys(tmp_path: Path) -> None:
    def decode(b: Any) -> Any:
        q, k, v = (
            b.input(name, "bfloat16", (2, heads, n, 24))
            for name, heads, n in (("q", 4, 1), ("k", 2, 41), ("v", 2, 41))
        )
        k, v = (b.op("aten.repeat_interleave.self_int", one, 2, 1) for one in (k, v))
        made = b.op(
            "aten.scaled_dot_product_attention.default", q, k, v, b.input("mask", "bool", (1, 1, 1, 41))
        )
        return b.op("aten.view.default", b.op("aten.permute.default", made, [0, 2, 1, 3]), [2, 1, 96])

    assert agrees(graph_of(decode), AttentionSchedule(tile=(32, 16), warps=4), tmp_path) == ""


def test_a_number_of_groups_is_no_size_that_it_happens_to_equal() -> None:
    """Eight groups of an image of eight by eight, whose sides vary."""
    graph = with_symbols(
        graph_of(lambda b: b.op("aten.group_norm.default", b.input("x", "float32", (2, 16, 8, 8)), 8))
    )
    text = print_triton(Program(graph=graph, schedule=RowSchedule()))
    assert "% 8" in text
    assert "[(B * 8,)]" in text


def test_a_product_less_its_maximum_is_rounded_first(tmp_path: Path) -> None:
    """Contracted, a product of 10^12 is off by more than an exponential can take."""

    def scores(b: Any) -> Any:
        x, t = b.input("x", "float32", (6, 70)), b.input("t", "float32", (1,))
        return b.op(
            "aten.softmax.int",
            b.op("aten.mul.Tensor", x, b.op("aten.exp.default", b.op("aten.mul.Tensor", t, 30.0))),
            1,
        )

    graph, schedule = graph_of(scores), RowSchedule()
    assert "libdevice.mul_rn(" in print_triton(Program(graph=graph, schedule=schedule))
    assert agrees(graph, schedule, tmp_path) == ""


def convolution(x: tuple[int, ...], w: tuple[int, ...], stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1,
                transposed: bool = False) -> Any:  # fmt: skip
    rank = len(x) - 2
    filters = w[1] * groups if transposed else w[0]
    sizes = [[one] * rank for one in (stride, padding, dilation)]
    return graph_of(lambda b: b.op("aten.relu.default", b.op(
        "aten.convolution.default", b.input("x", "float32", x), b.input("w", "float32", w, role="weight"),
        b.input("c", "float32", (filters,), role="weight"), *sizes, transposed, [0] * rank, groups)))  # fmt: skip


CONVOLUTIONS = {
    "one channel": (convolution((2, 1, 8, 10), (24, 1, 4, 4), stride=2, padding=1), "nchw"),
    "3x3": (convolution((2, 20, 7, 9), (24, 20, 3, 3), padding=1), "nhwc"),
    "1x1": (convolution((2, 20, 7, 9), (24, 20, 1, 1)), "nchw"),
    "strided": (convolution((2, 20, 9, 11), (24, 20, 3, 3), 2, 1), "nhwc"),
    "dilated in one dimension": (convolution((2, 20, 33), (24, 20, 3), 1, 1, 2), "nchw"),
    "three dimensions": (convolution((2, 6, 5, 4, 7), (8, 6, 3, 3, 3), 1, 1), "nchw"),
    "groups": (convolution((2, 20, 7, 9), (24, 10, 3, 3), 1, 1, groups=2), "nhwc"),
    "transposed": (convolution((2, 20, 5, 6), (20, 12, 3, 3), 2, 1, transposed=True), "nchw"),
    "depthwise": (convolution((2, 20, 7, 9), (20, 1, 3, 3), 1, 1, groups=20), "direct"),
    "two filters a channel": (convolution((2, 10, 7, 9), (20, 1, 3, 3), 2, 1, groups=10), "direct"),
}


@pytest.mark.parametrize("what", CONVOLUTIONS)
def test_convolutions_agree_with_fp64(what: str, tmp_path: Path) -> None:
    graph, how = CONVOLUTIONS[what]
    kind: Any = {"algorithm": "direct"} if how == "direct" else {"layout": how}
    schedule = ConvolutionSchedule(tile=(32, 16, 16), precision="ieee", **kind)
    assert agrees(graph, schedule, tmp_path) == ""


BOXES = {
    "shifted": (convolution((3, 32, 12, 12), (40, 32, 3, 3), padding=1), (4, 4)),
    "strided": (convolution((3, 32, 12, 16), (40, 32, 3, 3), 2, 1), (1, 8)),
    "a step that divides no side": (convolution((2, 32, 11, 9), (40, 32, 3, 3), 2, 1), (4, 8)),
    "dilated, with channels that fill no step": (
        convolution((2, 20, 10, 8), (33, 20, 3, 3), 1, 2, 2),
        (2, 2),
    ),
    "one image": (convolution((1, 32, 12, 12), (33, 32, 4, 4), 4), (4, 4)),
}


@pytest.mark.parametrize("what", BOXES)
def test_convolutions_of_boxes_agree_with_fp64(what: str, tmp_path: Path) -> None:
    graph, box = BOXES[what]
    schedule = ConvolutionSchedule(
        tile=(32, 32, 32), layout="nhwc", loads="descriptor", box=box, group=2, precision="ieee"
    )
    assert agrees(graph, schedule, tmp_path) == ""


def test_an_input_with_channels_last_is_loaded_in_boxes_as_it_is(tmp_path: Path) -> None:
    graph, shape = BOXES["shifted"][0], (3, 32, 12, 12)
    first, *others = graph.arguments
    kind = first.type.model_copy(update={"strides": (32 * 144, 1, 32 * 12, 32)})
    last = graph.model_copy(
        update={"arguments": (first.model_copy(update={"type": kind}), *others), "name": graph.name}
    )
    schedule = ConvolutionSchedule(tile=(32, 32, 32), loads="descriptor", box=(4, 4), precision="ieee")
    code = print_triton(Program(graph=last, schedule=schedule))
    values = draw(graph)
    values["x"] = values["x"].contiguous(memory_format=torch.channels_last)
    assert values["x"].shape == shape
    assert compare(graph, code, values, tmp_path) == ""
    assert "to_channels_last" not in code
    assert "x_desc = TensorDescriptor" in code


def test_tiles_of_rows_agree_with_fp64(tmp_path: Path) -> None:
    make, _ = GRAPHS["max pooling"]
    assert agrees(graph_of(make), MapSchedule(rows=4, block=16), tmp_path) == ""
    make, _ = GRAPHS["joined"]
    assert agrees(graph_of(make), MapSchedule(rows=2, block=8), tmp_path) == ""


def unary(op: str, *shape: int) -> Any:
    return graph_of(lambda b: b.op(op, b.input("x", "float32", shape), *([-1] if "softmax" in op else [])))


def test_rows_of_tensors_beyond_31_bits_are_numbered_in_64() -> None:
    wide, plain = (
        print_triton(Program(graph=unary("aten.softmax.int", *shape), schedule=RowSchedule()))
        for shape in ((2**20, 4096), (64, 4096))
    )
    assert "row = tl.program_id(0).to(tl.int64)" in wide
    assert "to(tl.int64)" not in plain


@pytest.mark.parametrize(("weight", "end"), [(0.25, "x + 0.25 * (y - x)"), (0.75, "y - 0.25 * (y - x)")])
def test_lerp_starts_at_the_nearer_end_as_pytorch_does(weight: float, end: str) -> None:
    graph = graph_of(lambda b: b.op("aten.lerp.Scalar", b.input("x", "float32", (8,)), b.input("y", "float32", (8,)),
                                    weight))  # fmt: skip
    assert end in print_triton(Program(graph=graph, schedule=MapSchedule()))


def test_what_a_window_leaves_has_a_name_and_kernels_take_arguments_in_the_graphs_order() -> None:
    graph = with_symbols(graph_of(lambda b: b.op("aten.add.Tensor", b.input("c", "float32", (2, 16, 10, 7)), b.op(
        "aten.convolution.default", b.input("x", "float32", (2, 8, 12, 9)),
        b.input("w", "float32", (16, 8, 3, 3), role="weight"), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1))))  # fmt: skip
    code = print_triton(
        Program(graph=graph, schedule=ConvolutionSchedule(tile=(32, 16, 16), warps=4)), "nest"
    )
    assert "P = H - 2" in code
    assert "Q = W - 2" in code
    assert "def nest_kernel(c_ptr, x_ptr, " in code


def test_a_direct_convolution_unrolls_no_channels_whose_number_may_vary() -> None:
    graph = with_symbols(
        graph_of(
            lambda b: b.op(
                "aten.convolution.default", b.input("x", "float32", (2, 3, 16, 16)),
                b.input("w", "float32", (8, 3, 3, 3)), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
            )
        )
    )  # fmt: skip
    schedule = ConvolutionSchedule(algorithm="direct", tile=(256, 16, 16))
    with pytest.raises(Unsupported, match="may vary"):
        print_triton(Program(graph=graph, schedule=schedule))


DEPTHWISE = {
    "7x7, bias, relu": ((2, 3, 9, 11), 7, 1, 3, 1, False),
    "3x3, turned": ((2, 2, 10, 8), 3, 1, 1, 1, True),
    "3x3, two steps": ((1, 2, 11, 9), 3, 2, 1, 1, False),
    "3x3, dilated, turned": ((1, 2, 10, 8), 3, 1, 2, 2, True),
}


@pytest.mark.parametrize(
    "way", [("patch", (7, 4)), ("patch", (2, 1)), ("strip", (5, 4)), ("strip", (9, 2))], ids=str
)
@pytest.mark.parametrize("how", DEPTHWISE)
def test_depthwise_convolutions_agree_with_fp64(how: str, way: Any, tmp_path: Path) -> None:
    shape, size, stride, padding, dilation, turned = DEPTHWISE[how]
    if way[0] == "strip" and (stride, dilation) != (1, 1):
        pytest.skip("strips walk row by row")

    def make(b: Any) -> Any:
        x, c = b.input("x", "bfloat16", shape), b.input("c", "bfloat16", (shape[1],))
        w = b.input("w", "bfloat16", (shape[1], 1, size, size), role="weight")
        steps = [[one] * 2 for one in (stride, padding, dilation)]
        made = b.op(
            "aten.relu.default", b.op("aten.convolution.default", x, w, c, *steps, False, [0, 0], shape[1])
        )
        return (
            b.op("aten.clone.default", b.op("aten.permute.default", made, [0, 2, 3, 1])) if turned else made
        )

    assert agrees(graph_of(make), DepthwiseSchedule(algorithm=way[0], tile=way[1], warps=1), tmp_path) == ""
