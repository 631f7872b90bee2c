"""The library's answers go through the judge, at sizes other than the captured ones."""

from collections.abc import Iterator
from typing import Any

import pytest
from running_programs import graph_of

from kernelwright.graph.shrink import with_symbols
from kernelwright.graph.task import to_task
from kernelwright.graph.types import Graph
from kernelwright.records import Candidate, Verdict
from kernelwright.synth.library import program_of, schedules_of
from kernelwright.synth.program import AttentionSchedule, ConvolutionSchedule, MapSchedule, Program
from kernelwright.synth.to_triton import print_triton
from kernelwright.verify.pool import VerifierPool

MODULE = "\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, *arguments):\n        return kernel(*arguments)\n"
SIZES = ((4, 6, 5, 7), (3, 7, 9, 33))


@pytest.fixture(scope="module")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(workers=1, backend="interpret", compiled=False, priced=False, kept=True) as made:
        yield made


def graphs() -> dict[str, Graph]:
    def norm(b: Any) -> Any:
        x, w, c = (
            b.input("x", "bfloat16", (64, 128, 96)),
            b.input("w", "bfloat16", (96,)),
            b.input("c", "bfloat16", (96,)),
        )
        return b.op(
            "aten.layer_norm.default",
            b.op("aten.add.Tensor", x, b.input("y", "bfloat16", (64, 128, 96))),
            [96],
            w,
            c,
        )

    def linear(b: Any) -> Any:
        x, w = b.input("x", "bfloat16", (256, 512)), b.input("w", "bfloat16", (384, 512), role="weight")
        return b.op(
            "aten.silu.default",
            b.op("aten.linear.default", x, w, b.input("c", "bfloat16", (384,), role="weight")),
        )

    def image(b: Any) -> Any:
        x, w = (
            b.input("x", "bfloat16", (8, 32, 28, 28)),
            b.input("w", "bfloat16", (64, 32, 3, 3), role="weight"),
        )
        return b.op("aten.conv2d.default", x, w, None, [2, 2], [1, 1])

    def attend(b: Any) -> Any:
        q, k, v = (b.input(one, "bfloat16", (2, 4, 64, 32)) for one in "qkv")
        return b.op("aten.scaled_dot_product_attention.default", q, k, v, None, 0.0, True)

    def gated(b: Any) -> Any:
        x = b.input("x", "bfloat16", (256, 512))
        g, u = (b.input(name, "bfloat16", (384, 512), role="weight") for name in "gu")
        first, second = (b.op("aten.linear.default", x, w) for w in (g, u))
        return b.op("aten.mul.Tensor", b.op("aten.silu.default", first), second)

    def residual(b: Any) -> Any:
        x, y, w = (b.input(n, "bfloat16", s) for n, s in (("x", (64, 96)), ("y", (64, 96)), ("w", (96,))))
        total = b.op("aten.add.Tensor", x, y)
        return total, b.op("aten.rms_norm.default", total, [96], w, 1e-6)

    makes = (norm, linear, image, attend, gated, residual)
    return {make.__name__: graph_of(make) for make in makes}


def judged(name: str, graph: Graph, schedule: Any, pool: VerifierPool) -> Verdict:
    """The verdict on a schedule, or on the library's first program, for a graph whose sizes are free."""
    graph = with_symbols(graph)
    sets = {
        name: {one.name: min(sizes[at % len(sizes)], one.hint) for at, one in enumerate(graph.symbols)}
        for name, sizes in zip(("small", "small_odd"), SIZES, strict=True)
    }
    program = Program(graph=graph, schedule=schedule) if schedule is not None else program_of(graph)
    assert program is not None
    code = print_triton(program) + MODULE
    return pool.verify(to_task(graph, f"graph/{name}", shapes=sets), Candidate(code=code))


@pytest.mark.parametrize("what", graphs())
def test_the_library_is_accepted_at_other_sizes(what: str, pool: VerifierPool) -> None:
    verdict = judged(what, graphs()[what], None, pool)
    assert verdict.correct, verdict.detail


def chosen() -> dict[str, tuple[Graph, Any]]:
    """Graphs with schedules that are not the library's first."""

    def image(b: Any) -> Any:
        x, w = (
            b.input("x", "bfloat16", (2, 32, 8, 8)),
            b.input("w", "bfloat16", (32, 32, 3, 3), role="weight"),
        )
        return b.op("aten.relu.default", b.op("aten.conv2d.default", x, w, None, [1, 1], [1, 1]))

    def attend(b: Any) -> Any:
        q, k, v = (b.input(one, "float32", (2, 4, 64, 32)) for one in "qkv")
        return b.op("aten.scaled_dot_product_attention.default", q, k, v, None, 0.0, True)

    def pool_rows(b: Any) -> Any:
        return b.op(
            "aten.max_pool2d.default", b.input("x", "bfloat16", (2, 3, 18, 20)), [3, 3], [2, 2], [1, 1]
        )

    boxes = ConvolutionSchedule(tile=(64, 32, 32), layout="nhwc", loads="descriptor", box=(8, 8))
    heads = AttentionSchedule(tile=(32, 32), warps=4, loads="descriptor", first="heads", precision="tf32x3")
    return {
        "boxes": (graph_of(image), boxes),
        "three products, longest loops first": (graph_of(attend), heads),
        "tiles of rows": (graph_of(pool_rows), MapSchedule(rows=4, block=16)),
    }


@pytest.mark.parametrize("what", chosen())
def test_chosen_schedules_are_accepted(what: str, pool: VerifierPool) -> None:
    verdict = judged(what.split()[0], *chosen()[what], pool)
    assert verdict.correct, verdict.detail


@pytest.mark.parametrize("what", graphs())
def test_every_schedule_worth_a_search_is_legal(what: str) -> None:
    found = schedules_of(graphs()[what])
    assert len(found) > 3
    assert len(set(found)) == len(found)
