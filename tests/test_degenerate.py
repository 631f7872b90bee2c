"""The task audit: one degenerate task of each kind is found, a good one is not, and foreign code stays confined."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.tasks import load_suite

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import degenerate

Auditor = Callable[[Task], list[degenerate.Finding]]

FORM = """
import torch
import torch.nn as nn
B, N = {sizes}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, {names}):
        {body}
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return []
"""


def task(body: str, inputs: str = "torch.rand(B, N)", names: str = "x", sizes: str = "8, 512") -> Task:
    source = FORM.format(body=body, inputs=inputs, names=names, sizes=sizes)
    small = {"B": 4, "N": 64}
    return Task(id="file/made", suite="file", source=source, shapes={"small": small})


@pytest.fixture(scope="module")
def auditor() -> Auditor:
    degenerate.warm_up()
    return lambda task: degenerate.audit([task], ["kernelbench", "strict"], seconds=10.0)


def kinds(found: list[degenerate.Finding], protocol: str = "kernelbench") -> set[tuple[str, str]]:
    return {(finding.kind, finding.sizes) for finding in found if finding.protocol == protocol}


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (task("return torch.relu(x) * 0"), "zeros"),
        (task("return torch.relu(x)"), "identity"),
        (task("return torch.full_like(x, 3.0)"), "constant"),
        (task("return torch.dropout(x, 0.5, True)"), "random"),
        (task("return x + 1e-9 * y", "torch.randn(B, N), torch.randn(B, N)", "x, y"), "identity"),
        (task("return torch.arange(N, device=x.device) * 2.0"), "another_seed"),
        (task("return x.nothing()"), "fails"),
        (task("return x / 0 * 0"), "fails"),
        (task("return torch.where(torch.arange(N) < 2, x, 1e-7 * x)", sizes="8, 4096"), "mostly_zeros"),
        (task("return (x[:, None] * y[None]).mean()", "torch.rand(B, N), torch.ones(B, N)", "x, y"), "order"),
    ],
)
def test_each_kind_of_degenerate_task_is_found(auditor: Auditor, made: Task, kind: str) -> None:
    assert (kind, "full") in kinds(auditor(made))


def test_an_ignored_input_is_named(auditor: Auditor) -> None:
    made = task("return torch.tanh(x) + 0 * y", "torch.randn(B, N), torch.randn(B, N)", "x, y")
    assert "the output does not depend on an input (input 1)" in {f.detail for f in auditor(made)}


def test_other_distributions_take_the_excuse_away(auditor: Auditor) -> None:
    found = auditor(task("return torch.relu(x)"))
    assert kinds(found, "kernelbench") == {("identity", "full")}
    assert kinds(found, "strict") == set()


@pytest.mark.parametrize("name", ["softmax_rows", "loss_mse", "argmax_dim1"])
def test_good_tasks_have_no_findings(auditor: Auditor, name: str) -> None:
    (good,) = load_suite(f"wright/{name}")
    small = good.model_copy(update={"shapes": {"full": good.shapes["small_odd"]}})
    assert auditor(small) == []


def test_references_are_confined(auditor: Auditor) -> None:
    for body in ("open('/etc/passwd').read(); return x", "import socket; socket.socket(); return x"):
        (first, *_) = auditor(task(body))
        assert first.kind == "fails"
        assert "PermissionError" in first.detail


def test_endless_references_end(auditor: Auditor) -> None:
    (finding,) = degenerate.audit([task("while True: pass")], ["kernelbench"], seconds=0.5)
    assert finding.kind == "fails"


def test_an_error_that_falls_with_the_size_is_extrapolated() -> None:
    series = [(10**3, 40.0), (10**4, 12.6), (10**5, 4.0)]
    last = {"full": False}
    assert degenerate._holds(series, last, 10**9) == "extrapolated"
    assert degenerate._holds(series, last, 10**6) is None
    assert degenerate._holds([(10**3, 0.1), (10**5, 0.2)], last, 10**6) == "shrunk"
    assert degenerate._holds([(10**3, 0.1), (10**5, 0.9)], last, 10**9) is None
    assert degenerate._holds([(10**3, 0.1)], {"full": True}, 10**3) == "full"


def test_sizes_grow_in_steps_that_keep_divisors() -> None:
    made = task("return x", sizes="4096, 1024")
    steps = degenerate.levels(made)
    assert steps[0] == {"B": 4, "N": 64}
    assert steps[-1] == {}
    assert all(sizes["N"] % 64 == 0 for sizes in steps[:-1])


def test_unknown_tolerances_are_refused() -> None:
    with pytest.raises(UserError, match="unknown protocol 'loose'"):
        degenerate.audit([task("return x")], ["loose"])
