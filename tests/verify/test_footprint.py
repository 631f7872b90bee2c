"""A task's GPU memory: the estimate is enough, and not much more."""

from typing import Any

import pytest
import torch

from kernelwright.hardware import target
from kernelwright.records import Task
from kernelwright.verify.cost import footprint
from kernelwright.verify.cost.footprint import Live
from kernelwright.verify.protocol import protocol
from kernelwright.verify.reference import distributions, expected, gpu_cases
from kernelwright.verify.reference.baseline import Baseline, baseline
from kernelwright.verify.reference.cases import make_case
from kernelwright.verify.reference.comparison import compare_or_round
from kernelwright.verify.reference.gpu_cases import GpuCases
from kernelwright.verify.reference.task_module import Reference

STRICT = protocol("strict")
SOURCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

N = {n}

class Model(nn.Module):
    def forward(self, {names}):
        return {body}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
GELU = "0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))"


def task(body: str, names: str = "x", inputs: str = "torch.randn(N)", n: int = 1 << 22) -> Task:
    source = SOURCE.format(body=body, names=names, inputs=inputs, n=n)
    return Task(id="test/task", source=source, shapes={"full": {}})


def modelled(made: Task) -> Baseline:
    return baseline(made, {}, target("H200"))


def held_by(function: Any) -> int:
    """Peak bytes of a call."""
    with Live() as live:
        function()
    return live.peak


def test_storages_are_counted_while_they_live() -> None:
    def chain() -> Any:
        x = torch.ones(1000)
        for _ in range(5):
            x = x + 1
        return x.view(10, 100)

    with Live() as live:
        kept = chain()
    assert live.peak == 8000
    assert live.now == kept.nbytes == 4000


TASKS = [
    ("torch.relu(x)", "x", "torch.randn(N)"),
    (GELU, "x", "torch.randn(N)"),
    ("x + y", "x, y", "torch.randn(N), torch.randn(N)"),
    ("torch.relu(x)", "x", "torch.randn(N, dtype=torch.float16)"),
    ("x.view(1024, -1).sum(1)", "x", "torch.randn(N)"),
    ("x.mean()", "x", "torch.randn(N)"),
    ("F.softmax(x.view(1024, -1), -1) * 2", "x", "torch.randn(N)"),
    ("x.relu_()", "x", "torch.randn(N)"),
]


@pytest.mark.parametrize(("body", "names", "inputs"), TASKS)
def test_making_a_case_takes_what_is_promised(
    body: str, names: str, inputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = task(body, names, inputs)
    print_of = modelled(made).footprint
    # On a GPU one kernel reads both tensors and allocates no other (`fused.spread`).
    monkeypatch.setattr(expected, "_spread", lambda exact, honest: (0.0, 0.0, 0.0, 0.0, True))
    reference = Reference(made)
    module = reference.build()

    def make() -> None:
        def draw() -> Any:
            return distributions.scale_inputs(reference.inputs(3), 3.0)

        case = make_case("full", module, draw, STRICT, 3.0)
        assert case is not None
        assert case.inputs is None

    peak = held_by(make)
    promised = print_of.making(1) - footprint._FIXED
    assert peak <= promised
    assert peak >= 0.4 * promised


def test_an_elementwise_task_takes_no_more_than_four_times_its_inputs_and_outputs() -> None:
    print_of = modelled(task("torch.relu(x)")).footprint
    whole = print_of.inputs + print_of.outputs
    assert print_of.making(2) - footprint._FIXED < 4 * whole
    assert print_of.judging(whole, beside=False) - footprint._FIXED < 4 * whole


def test_a_case_is_the_same_whether_its_inputs_are_drawn_again_or_kept() -> None:
    made = task(GELU, n=5000)
    reference = Reference(made)
    module = reference.build()
    kept = make_case("full", module, reference.inputs(3), STRICT)
    drawn = make_case("full", module, lambda: reference.inputs(3), STRICT)
    assert kept is not None
    assert drawn is not None
    assert torch.equal(kept.expected[0].value, drawn.expected[0].value)
    assert kept.expected[0].honest_error == drawn.expected[0].honest_error > 0
    assert drawn.inputs is None


def test_a_reference_that_runs_out_of_memory_in_fp64_is_not_taken_for_its_own_oracle() -> None:
    class Hungry(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype == torch.float64:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 12.00 GiB.")
            return x * 2

    with pytest.raises(torch.OutOfMemoryError):
        make_case("full", Hungry(), [torch.randn(8)], STRICT)


def test_inputs_that_find_no_memory_are_not_the_tasks_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = Reference(task("x * 2", n=8))

    def none() -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 6.00 GiB.")

    monkeypatch.setitem(reference.namespace, "get_inputs", none)
    with pytest.raises(torch.OutOfMemoryError):
        reference.inputs(1)


@pytest.mark.parametrize(
    ("body", "name"), [("x.mean()", "full x-1, uneven"), ("(x * x.sqrt()).mean()", "full x1, uneven")]
)
def test_at_full_size_a_mean_of_a_part_is_told_from_that_of_all(body: str, name: str) -> None:
    made = task(body, inputs="torch.rand(N) + 1", n=1 << 20)
    case = GpuCases(made, "full", {}, STRICT, [(1.0, 3), (-1.0, 4)], "cpu", True).case(1)
    assert case is not None
    assert case.name == name
    (x,), (whole,) = case.inputs, case.expected
    x = x[: 3 << 18]
    part = (x * x.sqrt() if "sqrt" in body else x).mean()
    assert compare_or_round(0, part, whole, STRICT, lambda: whole).kind
    assert not compare_or_round(0, whole.value.float(), whole, STRICT, lambda: whole).kind


@pytest.mark.parametrize(("body", "uneven"), [("x @ x.t()", False), ("(x @ x.t()).mean()", True)])
def test_products_are_not_of_uneven_inputs_unless_one_number_comes_of_them(body: str, uneven: bool) -> None:
    made = task(body, inputs="torch.randn(64, N)", n=128)
    case = GpuCases(made, "full", {}, STRICT, [(1.0, 3), (-1.0, 4)], "cpu", True, products=True).case(1)
    assert case is not None
    assert case.name.endswith("uneven") == uneven


@pytest.mark.parametrize(
    ("body", "products"),
    [("x @ x.t()", True), ("x @ x[0]", True), ("torch.dot(x[0], x[1])", True), ("x * x", False)],
)
def test_a_baseline_knows_products(body: str, products: bool) -> None:
    assert modelled(task(body, inputs="torch.randn(64, N)", n=128)).products == products


@pytest.mark.parametrize("large", [False, True])
def test_cases_that_were_let_go_of_are_made_again_the_same(
    large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_cases, "_DRAWN_AGAIN", 1000 if large else 1 << 30)
    plan = [(1.0, 3), (-1.0, 4)]
    cases = GpuCases(task(GELU, n=5000), "full", {}, STRICT, plan, "cpu", True)
    assert not cases.made
    cases.make()
    before = [cases.case(number) for number in range(2)]
    samples = cases.audit.samples
    held = cases.kept_bytes
    assert held >= 3 * 5000 * 8 + (0 if large else 2 * 5000 * 4)
    cases.release()
    assert (cases.made, cases.kept_bytes) == (False, 0)
    cases.make()
    assert cases.kept_bytes == held
    for number, old in enumerate(before):
        new = cases.case(number)
        assert old is not None
        assert new is not None
        assert torch.equal(old.inputs[0], new.inputs[0])
        assert torch.equal(old.expected[0].value, new.expected[0].value)
        assert old.expected[0].honest_error == new.expected[0].honest_error
    (one,), (other,) = samples, cases.audit.samples
    assert (one.start, one.step) == (other.start, other.step)
    assert torch.equal(one.expected.value, other.expected.value)


def test_memory_that_no_later_call_uses_does_not_last() -> None:
    from kernelwright.verify.trace.replay import Candidate

    def tape(made: int, foreign: dict[str, int]) -> dict[str, Any]:
        steps = [{"kind": "alloc", "storage": made, "bytes": 4000, "dtype": "float32"}]
        return {
            "operations": steps,
            "output": {"view": [made, 0, [1000], [1], "float32"]},
            "foreign": foreign,
        }

    def inputs(storage: int) -> list[Any]:
        return [[storage, 0, [1000], [1], "float32"]]

    answer = {
        "tapes": [tape(1, {"0": 4000}), tape(3, {"2": 4000, "9": 800}), tape(5, {"4": 4000})],
        "inputs": [inputs(0), inputs(2), inputs(4)],
        "state": {},
        "constants": [{"storage": 9, "bytes": 800}],
        "prepared": 0,
    }
    alone = Candidate(answer)
    assert footprint.lasting(alone) == {9}
    assert footprint.bytes_asked(alone) == (8000 + 2 * 800, 2 * 800)
    answer["tapes"][2] = tape(5, {"4": 4000, "1": 4000})
    assert footprint.lasting(Candidate(answer)) == {1, 9}
    assert footprint.bytes_asked(Candidate(answer)) == (12_000 + 2 * 800, 4000 + 2 * 800)
