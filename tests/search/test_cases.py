"""What is searched for: tasks as graphs with their own sizes, live modules, and the file written for an answer."""

import ast
import re
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from search.making import Judge, Says, timing
from torch import nn

from kernelwright.api import captured_of, case_of
from kernelwright.errors import UserError
from kernelwright.graph.capture import capture
from kernelwright.graph.partition import partition
from kernelwright.graph.stitch import stitch
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.compiler.reasons import CannotCompile
from kernelwright.policy.compiler.task import read
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.search import cases
from kernelwright.search.cache import Answer, KernelCache
from kernelwright.search.cases import Case, of_task
from kernelwright.search.whole import Settings, shrunk, sizes_of
from kernelwright.tasks import load_suite, small_shapes

FIXED = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 4)
    def forward(self, x):
        return torch.tanh(self.inner(x))
def get_inputs():
    return [torch.rand({rows}, 8)]
def get_init_inputs():
    return []
"""


def answer(case: Case) -> Answer:
    verdict = Verdict(task_id="t", outcome=Outcome.CORRECT, gate=Gate.TIMING, timing=timing(0.5))
    return Answer(
        graph=case.graph.digest, rung="compiler", code=stitch(partition(case.graph), {}), verdict=verdict
    )


def namespace(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(text, found)
    return found


def test_a_task_is_judged_as_it_is_at_its_own_sizes() -> None:
    [task] = load_suite("wright/linear_bias")
    case = of_task(task)
    assert case.form is not None
    assert case.form.task == task
    assert set(case.shapes) == set(task.small_sets)
    assert {one.name for one in case.graph.symbols} == set(next(iter(case.shapes.values())))


def test_its_answer_is_a_module_with_the_constructor_and_state_of_the_task() -> None:
    [task] = load_suite("wright/linear_bias")
    case = of_task(task)
    made, wanted = namespace(case.text(answer(case))), namespace(task.source)
    init = wanted["get_init_inputs"]()
    mine, model = made["ModelNew"](*init), wanted["Model"](*init)
    mine.load_state_dict(model.state_dict())
    x = wanted["get_inputs"]()
    torch.testing.assert_close(mine(*x), model(*x))


def test_an_optional_argument_that_the_task_does_not_give_is_not_asked_for() -> None:
    [task] = load_suite("wright/linear_bias")
    source = re.sub(r"(def forward\([^)]*)\)", r"\1, mask=None, *, scale=1.0)", task.source)
    assert "mask" in source
    case = of_task(task.model_copy(update={"source": source}))
    made, wanted = namespace(case.text(answer(case))), namespace(source)
    init, x = wanted["get_init_inputs"](), wanted["get_inputs"]()
    mine, model = made["ModelNew"](*init), wanted["Model"](*init)
    mine.load_state_dict(model.state_dict())
    torch.testing.assert_close(mine(*x), model(*x))


def test_products_may_stay_with_aten_only_where_that_is_asked_for() -> None:
    [task] = load_suite("wright/linear_bias")
    own, auto = of_task(task).form, of_task(task, "auto").form
    assert own is not None
    assert auto is not None
    assert (own.task.policy, auto.task.policy) == ("full", "partial")


def test_statistics_that_training_updates_are_left_out() -> None:
    source = FIXED.format(rows="batch").replace("torch.tanh(self.inner(x))", "self.norm(self.inner(x))")
    source = (
        source.replace("nn.Linear(8, 4)", "nn.Linear(8, 4); self.norm = nn.BatchNorm1d(4)") + "batch = 64\n"
    )
    case = of_task(Task(id="t", source=source, shapes={"small": {"batch": 5}, "small_odd": {"batch": 7}}))
    assert case.form is not None
    assert [one.name for one in case.graph.symbols] == ["batch"]
    assert not any("running" in one.origin for one in case.graph.arguments)


def test_small_sizes_with_other_operators_are_told_at_once() -> None:
    source = FIXED.format(rows="batch").replace(
        "torch.tanh(self.inner(x))", "self.inner(x) if len(x) < 7 else x"
    )
    task = Task(
        id="t", source=source + "batch = 64\n", shapes={"small": {"batch": 5}, "small_odd": {"batch": 9}}
    )
    with pytest.raises(CannotCompile, match="other operators run at other small sizes"):
        read(task)


def test_a_task_without_smaller_sizes_is_captured_as_it_stands() -> None:
    case = of_task(Task(id="file/fixed", source=FIXED.format(rows=6)))
    assert case.form is None
    assert case.values is not None
    case.check()
    made, wanted = namespace(case.text(answer(case))), namespace(FIXED.format(rows=6))
    model, mine = wanted["Model"](), made["ModelNew"]()
    mine.load_state_dict(model.state_dict())
    x = wanted["get_inputs"]()[0]
    torch.testing.assert_close(mine(x), model(x))


def test_a_task_whose_small_sizes_are_much_work_is_made_small_in_every_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = "ROWS = 64" + FIXED.format(rows="ROWS")
    task = Task(id="t/wide", suite="t", source=source, shapes={"small": {"ROWS": 6}})
    assert cases._multiplications(task) == 6 * 8 * 4
    assert of_task(task).form is not None
    monkeypatch.setattr(cases, "_DEAR", 100)
    wide = of_task(task)
    assert wide.form is None
    small, sizes = shrunk(wide.graph, wide.values)
    assert len(small.symbols) == 3 == len(sizes["small"])


def test_one_that_is_too_large_for_this_machine_says_so() -> None:
    with pytest.raises(UserError, match=r"full size takes 3[0-9] GiB; give it smaller sizes in a task.toml"):
        of_task(Task(id="file/large", source=FIXED.format(rows=10**9)))


def test_a_task_that_was_printed_from_a_graph_is_that_graph() -> None:
    [task] = load_suite("wright/relu")
    printed = of_task(small_shapes(task))
    graph = printed.graph
    upper = {name: {key.upper(): size for key, size in one.items()} for name, one in printed.shapes.items()}
    case = of_task(Task(id="graph/relu", source="", graph=graph.model_dump_json(), shapes=upper))
    assert case.graph == graph
    assert case.shapes == printed.shapes
    assert "class ModelNew" in case.text(answer(case))


def test_a_live_module_is_judged_in_function_form() -> None:
    module = nn.Sequential(nn.Linear(8, 4), nn.Tanh()).eval()
    case = case_of(module, captured_of(module, (torch.rand(6, 8),)))
    assert case.form is None
    text = case.text(answer(case))
    ast.parse(text)
    assert "'0.weight', (4, 8)" in text


def test_a_users_module_is_heard_first_and_may_win() -> None:
    [task] = load_suite("wright/relu")
    case = of_task(task)
    mine = "import torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return 0.25\n"
    slower = Says("compiler", "import torch\n\n\ndef kernel(x):\n    return 0.5\n")
    found = case.search(
        lambda: nullcontext(Judge()), lambda: [slower], KernelCache(None), Settings(contractions="own", rungs=("compiler",)),
        user=mine,
    )  # fmt: skip
    assert found.answer is not None
    assert found.answer.rung == "user"
    assert case.text(found.answer) == mine
    assert Candidate(code=mine).code in found.answer.code


def test_a_groups_sizes_are_those_of_its_place_in_the_whole_and_not_of_a_symbol_of_the_same_name() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.last = nn.GroupNorm(8, 64), nn.Conv2d(64, 96, 3)

        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.last(torch.relu(self.norm(x)))) * scale.exp()

    captured = capture(Block(), (torch.randn(1, 64, 12, 12), torch.randn(10)))
    graph, shapes = shrunk(captured.graph, captured.part.arguments)
    for group in partition(graph).groups:
        hints = {one.name: one.hint for one in group.graph.symbols}
        assert not hints or sizes_of(graph, shapes, group)["small"] != hints
