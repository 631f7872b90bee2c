"""Reasons for a schedule: every figure follows from graph and schedule, and alternatives are compared by the same figures."""

import pytest
from functions import pair, softmax_graph

from kernelwright.candidates import parse
from kernelwright.graph.types import Graph
from kernelwright.prompts import example_pair
from kernelwright.prompts.host_first import host_first
from kernelwright.synth.building import GraphBuilder
from kernelwright.synth.program import MapSchedule, ProductSchedule, RowSchedule
from kernelwright.synth.reasoning import bytes_of, facts, operations_of, outline, think
from kernelwright.synth.to_triton import source_of


def linear(m: int, n: int, k: int) -> Graph:
    builder = GraphBuilder("linear")
    x, w = builder.input("x", "bfloat16", (m, k)), builder.input("w", "bfloat16", (n, k), role="weight")
    return builder.graph(builder.op("aten.linear.default", x, w))


def test_bytes_are_arguments_and_results_once() -> None:
    assert bytes_of(softmax_graph(64, 256)) == 2 * 64 * 256 * 4


def test_a_product_does_two_operations_a_step() -> None:
    assert operations_of(source_of(linear(64, 32, 128))) == 2 * 64 * 32 * 128


def test_a_products_figures() -> None:
    found = facts(source_of(linear(1024, 512, 256)), ProductSchedule(tile=(128, 64, 32), stages=3, warps=4))
    assert found == {
        "tiles": "64",
        "accumulators a thread": "64",
        "KiB of operands in shared memory": "36",
        "operations for each byte of operands loaded": "42.7",
    }


@pytest.mark.parametrize(("passes", "walks"), [("one_pass", "1"), ("online", "2"), ("loop", "3")])
def test_a_softmax_walks_over_its_rows_as_often_as_its_passes_say(passes: str, walks: str) -> None:
    schedule = RowSchedule(passes=passes, block=256, warps=4)  # type: ignore[arg-type]
    assert facts(source_of(softmax_graph(64, 4096)), schedule)["walks over a row"] == walks


def test_others_are_named_by_what_differs() -> None:
    others = [RowSchedule(warps=4), RowSchedule(warps=1), MapSchedule()]
    assert think(softmax_graph(64, 256), RowSchedule(warps=4), others).splitlines() == [
        "bytes 131 KB, operations 81.9 KFLOP: 0.62 a byte",
        "64 rows of 256, 64 programs, 2 values a thread, 1 walks over a row",
        "not warps 1: 8 values a thread",
    ]


def test_an_answer_with_reasons_is_parsed_with_the_thought_apart() -> None:
    _, answer = example_pair(pair(), "compact", think=True)
    assert answer.startswith("<think>\nbytes ")
    found = parse(answer)
    assert (found.plan, found.code.strip()) == (pair().plan, host_first(pair().code))


def test_an_outline_begins_as_the_plan_and_has_the_sizes_it_follows_from_as_powers_of_two() -> None:
    shown = "g1: linear  nest product  width 2  log2 m 10  n 9  k 8  bytes 21  operations 28"
    assert outline(linear(1024, 512, 256)) == shown
    rows = "g1: softmax  nest row  width 4  contiguous 1  levels 2  log2 rows 6  columns 8"
    assert outline(softmax_graph(60, 256)).startswith(rows)
