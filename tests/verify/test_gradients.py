"""Gradients as outputs of a call: a reference's expectations, what a candidate's process receives, and missing gradients."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from kernelwright.errors import UserError
from kernelwright.graph.capture import capture
from kernelwright.graph.stitch import candidate
from kernelwright.graph.task import to_task
from kernelwright.outcomes import Outcome
from kernelwright.records import Candidate, Task
from kernelwright.verify import VerifierPool
from kernelwright.verify.gradient_ways import GradientWay
from kernelwright.verify.gradients import WithGradients, label
from kernelwright.verify.protocol import protocol
from kernelwright.verify.reference.oracle import ShapeCases, shape_cases
from kernelwright.verify.structures import flatten, skeleton

SOURCE = """
import torch
import torch.nn as nn
N = 8

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(N))
        self.unused = nn.Parameter(torch.randn(2))
    def forward(self, x, index):
        y = torch.tanh(x) * self.weight
        return y, y.argmax(-1), (x > 0)

def get_inputs():
    return [torch.randn(4, N), torch.arange(4)]

def get_init_inputs():
    return []
"""
TASK = Task(id="t", source=SOURCE, shapes={"small": {}}, gradients=True)


def made(task: Task = TASK) -> ShapeCases:
    return shape_cases(task, "small", {}, protocol("strict"), 1, 0)


def test_cotangents_come_for_outputs_that_have_gradients_alone() -> None:
    shapes = made()
    assert shapes.gradients == {"parameters": ["weight", "unused"], "positions": [0]}
    assert [tuple(one.shape) for one in shapes.cases[0].inputs] == [(4, 8), (4,), (4, 8)]


def test_what_is_expected_is_autograds_in_double_precision() -> None:
    shapes = made()
    x, _, dy = (one.double() for one in shapes.cases[0].inputs)
    weight = shapes.state["weight"].double()
    expected = shapes.cases[0].expected
    dx = dy * weight * (1 - torch.tanh(x) ** 2)
    dw = (dy * torch.tanh(x)).sum(0)
    assert [item.shape for item in expected] == [(4, 8), (4,), (4, 8), (4, 8), (8,), (2,)]
    for position, right in ((3, dx), (4, dw), (5, torch.zeros(2))):
        assert torch.allclose(expected[position].value, right.double(), atol=1e-12), position


def test_output_gradients_are_once_tiny_and_once_large() -> None:
    found = {case.name: float(case.inputs[2].abs().mean()) for case in made().cases}
    assert found["small x3, tiny output gradients"] < 1e-7
    assert found["small x-1, large output gradients"] > 1e4


def test_the_reference_is_called_again_with_other_weights() -> None:
    case = made().cases[0]
    state = {"weight": torch.zeros(8), "unused": torch.zeros(2)}
    found = torch.func.functional_call(case.module, state, tuple(case.inputs))
    assert not found["inputs"][0].any()
    assert found["parameters"][0].any()


def test_a_task_with_gradients_is_another_task() -> None:
    assert TASK.digest != TASK.model_copy(update={"gradients": False}).digest


def test_a_reference_without_gradients_is_one_line_for_the_user() -> None:
    source = SOURCE.replace("return y, y.argmax(-1), (x > 0)", "return y.argmax(-1)")
    with pytest.raises(UserError, match="no output of the reference has a gradient"):
        made(TASK.model_copy(update={"source": source}))


class Detached(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2.0 * x.detach()


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2.0 * x


@pytest.mark.parametrize(("module", "gradient"), [(Doubled, 2.0), (Detached, 0.0)])
def test_what_does_not_reach_an_input_is_zeros(module: Callable[[], nn.Module], gradient: float) -> None:
    with torch.no_grad():
        found = WithGradients(module(), [], [0])(torch.ones(3), torch.ones(3))
    assert found["inputs"][0].tolist() == [gradient] * 3
    assert not found["outputs"].requires_grad


def test_parameters_are_left_as_they_were() -> None:
    linear = nn.Linear(2, 2).requires_grad_(False)
    WithGradients(linear, ["weight", "bias"], [0])(torch.ones(1, 2), torch.ones(1, 2))
    assert not linear.weight.requires_grad


def test_tensors_are_named_for_people() -> None:
    form = skeleton(
        {"outputs": (torch.ones(1), 3), "inputs": (torch.ones(1),), "parameters": (torch.ones(1),)}
    )
    names = [label(position, form) for position in range(3)]
    assert names == ["", "the gradient of floating-point input 0", "the gradient of parameter 0"]


KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.load(w_ptr + at, mask=at < n), mask=at < n)


def product(x, w):
    out = torch.empty_like(x)
    scaled[(triton.cdiv(x.numel(), 256),)](x, w, out, x.numel(), BLOCK=256)
    return out


def kernel(a, b):
    return product(a, b)


def kernel_backward(a, b, cotangent):
    cotangent = cotangent.contiguous()
    return product(cotangent, b), product(cotangent, FACTOR)
"""


class Product(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * b


@pytest.mark.parametrize(("factor", "outcome"), [("a", Outcome.CORRECT), ("b", Outcome.WRONG_VALUE)])
def test_a_kernel_in_function_form_brings_its_backward_pass(
    factor: str, outcome: Outcome, pool: VerifierPool
) -> None:
    captured = capture(Product(), (torch.randn(6, 40), torch.randn(6, 40)))
    task = to_task(captured.graph, "product", shapes={"small": {}}).model_copy(update={"gradients": True})
    code = KERNEL.replace("FACTOR", factor)
    verdict = pool.verify(task, Candidate(code=candidate(code, captured.graph)))
    assert (verdict.outcome, verdict.gradients) == (outcome, True), verdict.detail


class Kept(nn.Module):
    """Autograd saves an intermediate, and neither input nor output."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * y.exp()


class Square(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x


def test_what_a_reference_does_not_keep_may_be_written_to_between_the_passes() -> None:
    given = [torch.ones(2, 2), torch.ones(2, 2)]
    asking = WithGradients(Kept(), [], [0])
    usual = asking(*given, torch.ones(2, 2))
    way = GradientWay.read(str(GradientWay(given=2, written=(0, 1, 2))))
    assert way is not None
    written = asking.asked(way)(*given, torch.ones(2, 2))
    assert all(map(torch.equal, flatten(usual), flatten(written)))
    assert torch.equal(given[0], torch.ones(2, 2))


def test_what_it_keeps_may_not() -> None:
    asking = WithGradients(Square(), [], [0]).asked(GradientWay(written=(0,)))
    with pytest.raises(RuntimeError, match="inplace"):
        asking(torch.ones(2), torch.ones(2))
