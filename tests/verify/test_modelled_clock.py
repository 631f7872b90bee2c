"""The cost model as a clock for printed code: repeatable, different for different schedules, with clear errors."""

import sys
from pathlib import Path

import pytest
from functions import softmax_graph, written

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from modelled import NoFit, modelled_microseconds

from kernelwright.hardware import target


def test_the_same_kernel_takes_the_same_time_and_a_worse_schedule_takes_more() -> None:
    graph = softmax_graph(4096, 4096)
    fast = modelled_microseconds(written(graph, warps=8)[1], graph, target("h200"))
    assert modelled_microseconds(written(graph, warps=8)[1], graph, target("h200")) == fast
    assert (
        modelled_microseconds(written(graph, passes="loop", block=32, warps=1)[1], graph, target("h200"))
        > 1.2 * fast
    )


def test_what_needs_more_than_the_target_has_does_not_fit() -> None:
    graph = softmax_graph(64, 65536)
    with pytest.raises(NoFit):
        modelled_microseconds(
            written(graph, passes="one_pass", rows=64, warps=1)[1], graph, target("h200"), assembler_s=2.0
        )
