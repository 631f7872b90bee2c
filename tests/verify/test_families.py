"""Ranges of sizes: where a task is judged, and the range that a verdict holds for."""

import pytest

from kernelwright.cli.read import with_ranges
from kernelwright.errors import UserError
from kernelwright.graph.task import to_task
from kernelwright.graph.types import Graph, Symbol
from kernelwright.outcomes import Outcome
from kernelwright.records import Candidate, Task
from kernelwright.verify import VerifierPool
from kernelwright.verify.reference.hidden_sizes import hidden_sizes, inside, large_sets

SOURCE = """
import torch
import torch.nn as nn
ROWS = 4096
COLS = 1024

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)

def get_inputs():
    return [torch.randn(ROWS, COLS)]

def get_init_inputs():
    return []
"""
SMALL = {"small": {"ROWS": 8, "COLS": 128}, "small_odd": {"ROWS": 5, "COLS": 93}}


def task(ranges: str) -> Task:
    return with_ranges(Task(id="t", source=SOURCE, shapes=SMALL), ranges)


def test_ranges_are_read() -> None:
    assert task("ROWS=1:8192, COLS=2:").ranges == {"ROWS": (1, 8192), "COLS": (2, None)}


@pytest.mark.parametrize("text", ["ROWS", "ROWS=4", "ROWS=0:4", "ROWS=9:4", "HEADS=1:4"])
def test_a_bad_range_names_the_fix(text: str) -> None:
    with pytest.raises(UserError, match=r"write NAME=LEAST:MOST|its constants are ROWS, COLS"):
        task(text)


def test_a_family_is_another_task() -> None:
    assert len({task(text).digest for text in ("ROWS=1:", "ROWS=2:", "ROWS=1:4096")}) == 3


def test_sets_lie_within_the_family_and_reach_its_least() -> None:
    asked = task("ROWS=2:8192,COLS=64:2048")
    for secret in range(20):
        sets = dict(hidden_sizes(asked, list(SMALL), secret))
        assert list(sets) == ["least_ROWS", "least_COLS", "least_all", "drawn_0", "drawn_1"]
        assert all(inside(asked, one) for alternatives in sets.values() for one in alternatives)
        assert sets["least_ROWS"][0]["ROWS"] == 2
        assert sets["least_all"][0] == {"ROWS": 2, "COLS": 64}


def test_the_most_is_the_full_size_where_any_is_taken() -> None:
    middle, most = large_sets(task("ROWS=1:,COLS=1:8192"), 1)
    assert most == {"ROWS": 4096, "COLS": 8192}
    assert middle["ROWS"] <= 4096
    assert middle["COLS"] % 2


MATRIX = {"kind": "tensor", "dtype": "float32", "shape": ["s0", 64]}


def test_symbols_of_a_graph_are_a_family_where_they_are_free() -> None:
    graph = Graph.model_validate(
        {
            "arguments": [{"name": "x", "type": MATRIX}],
            "nodes": [
                {
                    "op": "aten.relu.default",
                    "args": [{"ref": "x"}],
                    "outputs": [{"name": "y", "type": MATRIX}],
                }
            ],
            "results": ["y"],
            "symbols": [Symbol(name="s0", hint=16, least=2, most=512)],
        }
    )
    shapes = {"small": {"s0": 4}}
    assert to_task(graph, "g", shapes=shapes, free=["s0"]).ranges == {"S0": (2, 512)}
    assert to_task(graph, "g", shapes=shapes).ranges == {}


CODE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n + at, e / tl.sum(e, axis=0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty_like(x)
        softmax_kernel[(rows,)](x, out, n, BLOCK=SIZE)
        return out
"""


def test_a_verdict_says_for_which_sizes_it_holds(pool: VerifierPool) -> None:
    code = CODE.replace("SIZE", "triton.next_power_of_2(n)")
    verdict = pool.verify(task("ROWS=1:8192,COLS=2:2048"), Candidate(code=code))
    assert verdict.correct, verdict.detail
    assert verdict.sizes == {"ROWS": (1, 8192), "COLS": (2, 2048)}


@pytest.mark.parametrize(
    ("size", "where"),
    [
        ("max(triton.next_power_of_2(n), 16) if n < 2048 else 1024", "at ROWS 8192, COLS 2048"),
        ("triton.next_power_of_2(n) if n < 187 else max(128, n & -n)", "at ROWS|beyond"),
    ],
)
def test_a_kernel_that_is_wrong_at_an_end_is_rejected(size: str, where: str, pool: VerifierPool) -> None:
    verdict = pool.verify(task("ROWS=1:8192,COLS=2:2048"), Candidate(code=CODE.replace("SIZE", size)))
    assert not verdict.correct
    assert verdict.outcome is not Outcome.INFRASTRUCTURE_ERROR
    assert any(one in verdict.detail for one in where.split("|")), verdict.detail
