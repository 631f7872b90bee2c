"""Numbers that a candidate's kernels compare values with become input values."""

from kernelwright.records import Task
from kernelwright.verify.judge import Judge
from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference.named_values import named_values

CODE = """
MISSING = -999.0

@triton.jit
def kernel(x, n, BLOCK: tl.constexpr):
    x = tl.where(x == MISSING, 0.0, x)
    x = tl.where((x > 70.5) & (x < 71.5), 0.0, x)
    return tl.where((n == 2048) | (n < 77) | (BLOCK % 32 == 0) | (x > 0.0), x, -x)

def forward(x):
    return x == 5000.0
"""
SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {body}

def get_inputs():
    return [torch.randn(16, 32)]

def get_init_inputs():
    return []
"""


def inputs(body: str) -> set[float]:
    """The values in the last case of the first size, which contains the candidate's numbers."""
    task = Task(id="t/t", source=SOURCE.format(body=body), shapes={"small": {}})
    case = Judge(PROTOCOLS["strict"], "h200", 3).cases_for(task, CODE)[0].cases[-1]
    return set(case.inputs[0].reshape(-1).tolist()) if case.name == "small, named" else set()


def test_numbers_and_what_lies_between_them_are_named_with_either_sign() -> None:
    found = named_values(CODE)
    assert {70.5, 71.0, 71.5, 999.0, 2048.0} <= set(found)
    assert {-one for one in found} == set(found)
    assert not {0.0, 77.0, 32.0, 5000.0} & set(found)


def test_a_candidate_is_asked_at_its_numbers() -> None:
    assert {-999.0, 999.0, 71.0} <= inputs("torch.log1p(x.abs())")


def test_numbers_of_the_reference_itself_and_products_are_left_alone() -> None:
    assert -999.0 not in inputs("torch.where(x == -999.0, 0.0, x.sin())")
    assert not inputs("x @ x.t() + torch.sort(x)[0].sum()")
