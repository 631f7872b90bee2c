"""Schedules of one graph in their predicted order of speed."""

from running_programs import graph_of

from kernelwright.graph.types import Graph
from kernelwright.synth.library import schedules_of
from kernelwright.synth.program import ProductSchedule
from kernelwright.synth.ranking import rank_schedules


def product(m: int, n: int, k: int) -> Graph:
    return graph_of(
        lambda b: b.op("aten.mm.default", b.input("x", "bfloat16", (m, k)), b.input("y", "bfloat16", (k, n)))
    )


def test_all_schedules_are_kept() -> None:
    graph = product(1024, 4096, 4096)
    found = schedules_of(graph)
    assert sorted(map(str, rank_schedules(graph, found))) == sorted(map(str, found))


def test_large_tiles_come_first_for_large_products() -> None:
    graph = product(4096, 4096, 4096)
    large, small = (
        ProductSchedule(tile=(128, 256, 64), warps=8, stages=3),
        ProductSchedule(tile=(32, 32, 32), warps=4, stages=3),
    )
    assert rank_schedules(graph, [small, large]) == [large, small]


def test_few_rows_want_small_tiles_or_splits() -> None:
    graph = product(16, 8192, 8192)
    assert rank_schedules(graph, schedules_of(graph))[0].tile[0] <= 64
