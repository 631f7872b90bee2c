"""What verifications share: cases and baselines, and who is blamed if one cannot be made."""

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelwright.errors import InfrastructureError
from kernelwright.records import Task
from kernelwright.verify.judge import Judge
from kernelwright.verify.protocol import protocol
from kernelwright.verify.reference import baseline, periodic
from kernelwright.verify.reference.hidden_sizes import NONE
from kernelwright.verify.verification import Verification


def task(body: str) -> Task:
    source = (
        "import torch\nfrom torch import nn\nROWS = 64\nCOLS = 32\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, x):\n        {body}\n\n\ndef get_inputs():\n    return [torch.randn(ROWS, COLS)]\n\n\n"
        "def get_init_inputs():\n    return []\n"
    )
    shapes = {"small": {"ROWS": 8, "COLS": 16}, "small_odd": {"ROWS": 7, "COLS": 13}}
    return Task(id="test/judge", suite="test", source=source, shapes=shapes)


def judge() -> Judge:
    return Judge(protocol("strict"), "h200", secret=7)


def test_a_reference_that_cannot_run_without_data_has_no_baseline() -> None:
    assert judge().baseline(task("return x * x.sum().item()")) is None


def test_a_reference_that_can_has_one() -> None:
    assert judge().baseline(task("return x * 2")) is not None


def test_a_bug_in_the_recorder_is_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> float:
        raise KeyError("a bug of ours")

    monkeypatch.setattr(baseline, "_bytes", broken)
    with pytest.raises(InfrastructureError, match="a bug of ours"):
        judge().baseline(task("return x * 2"))


def test_a_bug_in_the_case_at_full_size_is_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("a bug of ours")

    monkeypatch.setattr(periodic, "patch", broken)
    with pytest.raises(InfrastructureError, match="a case at full size: IndexError"):
        judge().patch(task("return x * 2"))


@pytest.mark.parametrize(
    ("name", "rows", "programs", "operators", "idle"),
    [
        ("hidden_one", 0, 0, {"aten.mm.out": 2}, True),
        ("hidden_one", 3, 0, {"aten.mm.out": 2}, False),
        ("hidden_one", 3, 0, {}, True),
        ("hidden_one", 0, 4, {}, False),
        ("small", 0, 0, {"aten.mm.out": 2}, False),
    ],
)
def test_a_size_at_which_nothing_is_returned_tells_nothing_of_kernels(
    name: str, rows: int, programs: int, operators: dict[str, int], idle: bool
) -> None:
    launch = SimpleNamespace(programs=programs)
    trace: Any = SimpleNamespace(tape=SimpleNamespace(launches=lambda: [launch], compute=lambda: operators))
    assert Verification._idles(name, [torch.empty(rows, 4)], trace) is idle


def test_a_full_size_is_run_as_a_whole_by_what_a_kernel_moves() -> None:
    """Copies of 32 MB between small inputs and outputs, written and read by each of `steps` operators."""
    for steps, whole in ((12, True), (24, False)):
        spread = task(f"return (x.expand(4096, -1, -1){' * 1.5' * steps}).sum(0)")
        assert (judge().whole_case(spread) is not None) is whole


def test_one_that_was_closed_makes_no_more_cases() -> None:
    ended = judge()
    ended.end()
    with pytest.raises(InfrastructureError, match="the judge was closed"):
        ended.cases(task("return x + 1"))


def test_what_a_network_is_asked_last_is_made_while_it_is_interpreted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    for name in ("none_case", "after_calls", "step_counts", "long_cases"):
        monkeypatch.setattr(Judge, name, lambda self, *_, name=name: made.append(name))
    assert judge().make_ahead(task("return x * 2")) is None
    network = task("return [x := x.sin() + 1 for _ in range(100)][-1]")
    thread = judge().make_ahead(network)
    assert thread is not None
    thread.join()
    assert made == ["none_case", "after_calls", "step_counts", "long_cases"]


def test_a_size_of_0_at_which_an_attention_ends_the_process_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attention = task("return nn.functional.scaled_dot_product_attention(*3 * [x[None, None]])")
    assert judge().none_case(attention) is not None
    own = Judge._shape_cases

    def ends(self: Judge, task: Task, name: str, *args: Any, **kwargs: Any) -> Any:
        if name == NONE:
            os.kill(os.getpid(), signal.SIGKILL)
        return own(self, task, name, *args, **kwargs)

    monkeypatch.setattr(Judge, "_shape_cases", ends)
    assert judge().none_case(attention) is None
