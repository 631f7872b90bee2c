"""Parts of backward passes: gradients of weights, column sums, arguments that are permuted in memory."""

from pathlib import Path
from typing import Any

import pytest
import torch
from running_programs import agrees, draw, graph_of, run

from kernelwright.graph.types import Graph, TensorType
from kernelwright.synth.library import candidates, key_of, program_of, schedules_of
from kernelwright.synth.program import ProductSchedule, Program, RowSchedule
from kernelwright.synth.stages import nest_of
from kernelwright.synth.to_triton import print_triton, source_of

SMALL = {"tile": (32, 32, 32), "warps": 4, "group": 2}


def weights_gradient(rows: int = 6, m: int = 40, n: int = 48) -> Graph:
    def make(b: Any) -> Any:
        x = b.op("aten.reshape.default", b.input("x", "bfloat16", (rows, 7, m)), (rows * 7, m))
        return b.op(
            "aten.mm.default",
            b.op("aten.permute.default", x, [1, 0]),
            b.input("g", "bfloat16", (rows * 7, n)),
        )

    return graph_of(make)


@pytest.mark.parametrize("loads", ["pointer", "descriptor"])
def test_a_weights_gradient_may_be_split(loads: Any, tmp_path: Path) -> None:
    assert agrees(weights_gradient(), ProductSchedule(**SMALL, split_k=2, loads=loads), tmp_path) == ""


def test_a_long_contraction_is_split_at_first() -> None:
    first = next(iter(candidates(weights_gradient(14336, 256, 1024), "h200")))
    assert first.split_k >= 4
    assert first.loads == "descriptor"


def test_an_argument_permuted_in_memory_is_read_in_place(tmp_path: Path) -> None:
    def make(b: Any) -> Any:
        heads = b.op("aten.permute.default", b.input("x", "bfloat16", (2, 4, 9, 8)), [0, 2, 1, 3])
        return b.op(
            "aten.mm.default",
            b.op("aten.reshape.default", heads, (18, 32)),
            b.input("w", "bfloat16", (32, 40)),
        )

    graph = graph_of(make)
    kind = graph.arguments[0].type
    assert isinstance(kind, TensorType)
    first = graph.arguments[0].model_copy(
        update={"type": kind.model_copy(update={"strides": (288, 8, 32, 1)})}
    )
    graph = graph.model_copy(update={"arguments": (first, *graph.arguments[1:])})
    code = print_triton(Program(graph=graph, schedule=ProductSchedule(**SMALL, loads="descriptor")))
    values = draw(graph)
    expected = values["x"].permute(0, 2, 1, 3).reshape(18, 32).float() @ values["w"].float()
    values["x"] = values["x"].permute(0, 2, 1, 3).contiguous().permute(0, 2, 1, 3)
    got = run(code, values, tmp_path)[0].float()
    assert (got - expected).abs().max() < 0.05 * expected.abs().max()
    assert "x_desc" in code


def test_a_column_sum_stores_what_it_sums(tmp_path: Path) -> None:
    def make(b: Any) -> Any:
        x, y = b.input("x", "bfloat16", (3, 24, 5, 4)), b.input("y", "bfloat16", (24,))
        made = b.op("aten.mul.Tensor", b.op("aten.permute.default", x, [0, 2, 3, 1]), y)
        return made, b.op("aten.sum.dim_IntList", b.op("aten.reshape.default", made, (60, 24)), [0], True)

    schedule = RowSchedule(passes="split", rows=16, block=8, split=3)
    assert agrees(graph_of(make), schedule, tmp_path) == ""


@pytest.mark.parametrize("rows", [1, 4])
def test_a_batch_norm_is_split_by_level(rows: int, tmp_path: Path) -> None:
    def make(b: Any) -> Any:
        x, w = b.input("x", "bfloat16", (3, 5, 6, 7)), b.input("w", "bfloat16", (5,))
        h = b.op("aten._to_copy.default", x, dtype=torch.float32)
        var, mean = b.op("aten.var_mean.correction", h, [0, 2, 3], correction=0, keepdim=True)
        scale = b.op("aten.rsqrt.default", b.op("aten.add.Tensor", var, 1e-5))
        made = b.op("aten.mul.Tensor", b.op("aten.sub.Tensor", h, mean), scale)
        weight = b.op("aten.unsqueeze.default", b.op("aten.unsqueeze.default", w, 1), 2)
        return b.op("aten.mul.Tensor", made, weight), b.op("aten.squeeze.dims", mean, [0, 2, 3])

    schedule = RowSchedule(passes="split", rows=rows, block=16, split=3)
    assert agrees(graph_of(make), schedule, tmp_path) == ""


def test_float32_behind_a_product_of_halves_leaves_it_its_tiles() -> None:
    def make(b: Any) -> Any:
        made = b.op(
            "aten.mm.default", b.input("x", "bfloat16", (4096, 1024)), b.input("w", "bfloat16", (1024, 4096))
        )
        return b.op("aten.mul.Tensor", made, b.input("y", "float32", (4096, 4096)))

    assert next(iter(candidates(graph_of(make), "h200"))).tile[2] >= 64


def test_the_table_tells_forms_apart() -> None:
    def key(make: Any) -> str:
        source = source_of(graph_of(make))
        return key_of(source, nest_of(source))

    rows = key(lambda b: b.op("aten.sum.dim_IntList", b.input("x", "bfloat16", (512, 512)), [1]))
    columns = key(lambda b: b.op("aten.sum.dim_IntList", b.input("x", "bfloat16", (512, 512)), [0]))
    assert rows != columns
    turned = key(lambda b: b.op("aten.mm.default", b.op("aten.t.default", b.input("x", "bfloat16", (512, 512))),
                                b.input("w", "bfloat16", (512, 512))))  # fmt: skip
    plain = key(
        lambda b: b.op(
            "aten.mm.default", b.input("x", "bfloat16", (512, 512)), b.input("w", "bfloat16", (512, 512))
        )
    )
    assert turned != plain


def test_the_table_is_read() -> None:
    def make(b: Any) -> Any:
        return b.op(
            "aten.linear.default",
            b.input("x", "bfloat16", (4096, 4096)),
            b.input("w", "bfloat16", (4096, 4096), role="weight"),
        )

    graph = graph_of(make)
    assert schedules_of(graph)[0].stages == 4
    assert schedules_of(graph)[0].epilogue == 2


def gradient(of: str, taps: int = 1, step: int = 1, each: bool = False, gap: int = 1) -> Graph:
    """One result of convolution_backward: with 10 channels and 12 filters, or 10 depthwise filters."""
    filters, reach = (10 if each else 12), gap * (taps - 1)
    pad = taps // 2
    high, wide = ((side + 2 * pad - reach - 1) // step + 1 for side in (9, 8))

    def make(b: Any) -> Any:
        arguments = [
            b.input("g", "bfloat16", (2, filters, high, wide)),
            b.input("x", "bfloat16", (2, 10, 9, 8)),
            b.input("w", "bfloat16", (filters, 1 if each else 10, taps, taps), role="weight"),
        ]
        wanted = [one == of for one in ("input", "weights", "bias")]
        counted = [filters] if of == "bias" else None
        how = (counted, [step] * 2, [pad] * 2, [gap] * 2, False, [0, 0], 10 if each else 1, wanted)
        return b.op("aten.convolution_backward.default", *arguments, *how)[wanted.index(True)]

    return graph_of(make)


@pytest.mark.parametrize("of", ["input", "weights", "bias"])
@pytest.mark.parametrize(
    "how",
    [{}, {"taps": 3}, {"taps": 3, "step": 2}, {"step": 2}, {"taps": 5, "each": True}, {"taps": 3, "gap": 2}],
    ids=["1x1", "3x3", "3x3 by two", "1x1 by two", "depthwise", "dilated"],
)
def test_gradients_of_a_convolution(of: str, how: dict[str, Any], tmp_path: Path) -> None:
    graph = gradient(of, **how)
    program = program_of(graph)
    assert program is not None
    assert agrees(graph, program.schedule, tmp_path) == ""


def test_a_weights_gradient_by_tap_may_be_split(tmp_path: Path) -> None:
    graph = gradient("weights", taps=3)
    assert agrees(graph, ProductSchedule(**{**SMALL, "tile": (16, 16, 32)}, split_k=3), tmp_path) == ""


def test_two_gradients_at_once_have_no_nest() -> None:
    def make(b: Any) -> Any:
        g, x = (b.input(name, "bfloat16", (2, 8, 5, 5)) for name in "gx")
        w = b.input("w", "bfloat16", (8, 8, 1, 1), role="weight")
        how = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False])
        return b.op("aten.convolution_backward.default", g, x, w, *how)[:2]

    assert schedules_of(graph_of(make)) == []


@pytest.mark.parametrize("step", [1, 2])
def test_a_depthwise_weights_gradient_has_every_tap_in_registers(step: int, tmp_path: Path) -> None:
    graph = gradient("weights", taps=5, each=True, step=step)
    first = next(iter(candidates(graph, "h200")))
    assert first.nest == "depthwise"
    assert agrees(graph, first.model_copy(update={"tile": (3, 2)}), tmp_path) == ""


def test_other_sums_have_no_taps() -> None:
    found = schedules_of(gradient("bias"))
    assert found
    assert not [one for one in found if one.nest == "depthwise"]
