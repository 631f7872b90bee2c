"""Published kernels as starting points: how they are bound to a graph, what a budget counts, and when one counts as made faster."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import foreign
import foreign_golds
from fakes import ReadJudge, task

from kernelwright.errors import UserError
from kernelwright.records import Candidate
from kernelwright.search.tune import Variant
from kernelwright.tasks.form import check_reference

GOLD = '''import logging
import torch
import triton
import triton.language as tl

torch.manual_seed(0)

@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    """Doubles."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # a comment
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

@triton.jit
def backward_kernel(x):
    pass

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        logging.debug("forward")
        y = torch.empty_like(x)
        double_kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
        return y

    @staticmethod
    def backward(ctx, dy):
        backward_kernel[(1,)](dy)

def triton_mul2(x):
    return Double.apply(x)

##########################################################

def test_mul2():
    print(triton_mul2(torch.ones(3)))
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "TritonBench" / foreign_golds.FOLDER
    folder.mkdir(parents=True)
    (folder / "triton_mul2.py").write_text(GOLD)
    return tmp_path


def test_every_gold_has_a_reference_in_the_form_of_a_task() -> None:
    for name, (_, sizes, given, inputs, says, _) in foreign_golds.GOLDS.items():
        assert len(inputs) == len(given.split(","))
        check_reference(foreign_golds.reference(sizes, given, inputs, says), name)


def test_a_gold_is_the_part_that_its_forward_call_reaches(checkout: Path) -> None:
    [one] = foreign.found(checkout)
    assert one.name == "tritonbench-g/triton_mul2"
    assert one.code.endswith("def kernel(x):\n    return triton_mul2(x)\n")
    for left_out in ("backward", "logging.debug", "manual_seed", "test_mul2", "#"):
        assert left_out not in one.code


def test_a_folder_without_checkouts_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no checkout"):
        foreign.found(tmp_path)


def test_the_mid_end_is_shown_code_until_a_kernel_has_a_plan(checkout: Path) -> None:
    [one] = foreign.found(checkout)
    posed, code = one.posed()
    assert posed.graph
    graph = foreign.Graph.model_validate_json(posed.graph)
    first = judged(code)
    said = foreign.shown(posed, graph, first).messages[0].content
    assert "def double_kernel" in said
    assert "Doubles" not in said
    assert "triton_mul2" not in said
    plan = foreign.nearest_plan(graph, first, "h100")
    assert "nest map" in plan
    said = foreign.shown(posed, graph, first, plan).messages[0].content
    assert plan in said
    assert "double_kernel" not in said


def judged(code: str) -> Variant:
    return foreign.judge_again(ReadJudge(), task("a"), Candidate(code=code))


def test_a_budget_judges_each_kernel_once_and_no_more_than_its_limit() -> None:
    judge = ReadJudge()
    budget = foreign.Budget(judge, task("a"), limit=2)
    one, two, three = (Candidate(code=f"# correct {ms}\n") for ms in (0.3, 0.2, 0.1))
    assert len(budget.judge([one, one])) == 2
    assert [each.candidate for each in budget.judge([one, two, three])] == [one, two]
    assert budget.verdicts([three.code]) == [None]
    assert judge.judged == 2
    assert [each.candidate for each in budget.right] == [two, one]


def timing(low: float, ms: float, high: float) -> dict[str, Any]:
    return {
        "kind": "measured",
        "target": "h100",
        "candidate_ms": ms,
        "candidate_ci": [low, high],
        "baseline_ms": {"eager": 3.0, "compile": 1.0},
        "speedup_ci": {"eager": [3 / high, 3 / low], "compile": [1 / high, 1 / low]},
    }


def test_faster_is_five_per_cent_with_separated_intervals() -> None:
    published = timing(0.99, 1.0, 1.01)
    assert foreign.won(timing(0.93, 0.94, 0.95), published)
    assert not foreign.won(timing(0.95, 0.96, 0.97), published)
    assert not foreign.won(timing(0.8, 0.9, 1.0), published)
    assert not foreign.won(None, published)


def test_the_table_counts_kernels_that_were_judged_right(tmp_path: Path) -> None:
    rows = [
        {
            "name": "a",
            "outcome": "correct",
            "detail": "",
            "published": timing(0.99, 1.0, 1.01),
            "ways": {"tune": {"judged": 4, "again": timing(0.49, 0.5, 0.51)}, "numbers": {"judged": 0}},
        },
        {"name": "b", "outcome": "wrong_value", "detail": "off", "ways": {}},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = foreign.table(foreign.read_rows(tmp_path)).splitlines()
    assert lines[2:4] == ["| a | 1000 | - | 2.00 * | - | 1.00 |", "| b | wrong_value: off | | | | |"]
    assert "1 of 2 published kernels were judged right. Made at least 5 % faster:" in lines
    assert "- by tune: 1 of 1 [2 %, 100 %], handed on 2.00x; 4 kernels judged" in lines
    assert "- by mid-end: 0 of 1 [0 %, 98 %], handed on 1.00x; 0 kernels judged" in lines
    assert "- tune over torch.compile: 2.00x, 5 % ahead in 1 of 1" in lines
