"""Products with a common left operand in one kernel: correct in the judge's interpreter, refused for other graphs."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from running_programs import agrees, graph_of

from kernelwright.graph.types import Graph
from kernelwright.synth.joined import cost
from kernelwright.synth.library import program_of, schedules_of
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import JoinedSchedule, Program
from kernelwright.synth.ranking import rank_schedules
from kernelwright.synth.stages import nest_of
from kernelwright.synth.to_triton import print_triton, source_of

SMALL: dict[str, Any] = {"tile": (32, 32, 32), "warps": 4, "group": 2}
LOADS: dict[str, dict[str, Any]] = {
    "pointers": {},
    "descriptors": {"loads": "descriptor"},
    "persistent in pieces": {"loads": "descriptor", "persistent": True, "epilogue": 2},
    "persistent pointers": {"persistent": True},
}


def gate(dtype: str, m: int, n: int, k: int, also: bool = False) -> Graph:
    """silu(x g') * (x u'), with `also` the second product as well."""

    def make(b: Any) -> Any:
        x = b.input("x", dtype, (m, k))
        g, u = (b.input(name, dtype, (n, k), role="weight") for name in "gu")
        first, second = (b.op("aten.mm.default", x, b.op("aten.t.default", w)) for w in (g, u))
        made = b.op("aten.mul.Tensor", b.op("aten.silu.default", first), second)
        return (made, second) if also else made

    return graph_of(make)


def projections(dtype: str, rows: int, k: int, widths: tuple[int, ...]) -> Graph:
    """Linear layers of one input, each through its own view of it; the first split into heads."""

    def make(b: Any) -> Any:
        x, made = b.input("x", dtype, (2, rows, k)), []
        for place, width in enumerate(widths):
            w, c = (
                b.input(f"{name}{place}", dtype, shape, role="weight")
                for name, shape in (("w", (k, width)), ("c", (width,)))
            )
            flat = b.op("aten.view.default", x, [2 * rows, k])
            made.append(b.op("aten.addmm.default", c, flat, w))
        heads = b.op("aten.view.default", made[0], [2, rows, 2, widths[0] // 2])
        return (b.op("aten.permute.default", heads, [0, 2, 1, 3]), *made[1:])

    return graph_of(make)  # fmt: skip


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("how", [*LOADS, "loops as one"])
@pytest.mark.parametrize("sizes", [(70, 48, 200), (33, 49, 71)], ids=["aligned", "odd"])
def test_a_gated_product_agrees_with_fp64(how: str, sizes: Any, dtype: str, tmp_path: Path) -> None:
    one = {**LOADS["descriptors"], "persistent": True, "flat": True}
    schedule = JoinedSchedule(**SMALL, **LOADS.get(how, one))
    assert agrees(gate(dtype, *sizes, also=how == "descriptors"), schedule, tmp_path) == ""


def test_the_left_operand_is_loaded_once_for_both_products() -> None:
    text = print_triton(Program(graph=gate("bfloat16", 64, 64, 64), schedule=JoinedSchedule(**SMALL)))
    assert text.count("tl.load(x_ptr") == 1
    assert text.count("tl.dot(") == 2
    assert text.count("tl.store(") == 1


@pytest.mark.parametrize(
    ("graph", "products", "why"),
    [
        (projections("bfloat16", 16, 32, (32, 16)), 2, "different widths"),
        (gate("bfloat16", 64, 64, 64), 3, "3 products for 2"),
    ],
)
def test_what_cannot_be_joined_so_is_refused(graph: Graph, products: int, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        print_triton(Program(graph=graph, schedule=JoinedSchedule(**SMALL, products=products)))


def test_products_of_different_left_operands_have_no_nest() -> None:
    def make(b: Any) -> Any:
        x, y, w, u = (b.input(name, "bfloat16", (32, 32)) for name in "xywu")
        return b.op("aten.add.Tensor", b.op("aten.mm.default", x, w), b.op("aten.mm.default", y, u))

    with pytest.raises(Unsupported, match="different left operands"):
        nest_of(source_of(graph_of(make)))


@pytest.mark.parametrize(
    "decisions",
    [{"split_k": 2}, {"products": 5}, {"tile": (128, 256, 64)}, {"tile": (128, 128, 128), "stages": 3}],
)  # fmt: skip
def test_joined_schedules_that_no_target_could_run_cannot_be_built(decisions: Any) -> None:
    with pytest.raises(ValidationError):
        JoinedSchedule(**decisions)


@pytest.mark.parametrize(
    "graph",
    [gate("bfloat16", 4096, 5632, 2048), gate("float32", 512, 512, 256)],
    ids=["bfloat16", "float32"],
)
def test_the_library_orders_what_it_offers_by_the_estimate(graph: Graph) -> None:
    found = schedules_of(graph, "h100")
    source = source_of(graph)
    costs = [cost(source, one) for one in rank_schedules(graph, found, "h100")]
    program = program_of(graph, "h100")
    assert costs == sorted(costs)
    assert program is not None
    assert program.schedule.nest == "joined"
    for one in found[::9]:
        print_triton(Program(graph=graph, schedule=one))
