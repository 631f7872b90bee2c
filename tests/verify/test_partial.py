"""Tasks that leave part of the work to torch: the kernels' share of the time decides, and torch's part is priced."""

import pytest

from kernelwright.outcomes import Outcome
from kernelwright.records import Candidate, Task
from kernelwright.verify import VerifierPool

TASK = """
import torch
import torch.nn as nn

ROWS, COLS = 4096, 2048

class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x @ y)

def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(COLS, COLS)]

def get_init_inputs():
    return []
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)

class ModelNew(nn.Module):
    def forward(self, x, y):
        product = PRODUCT
        out = torch.empty_like(product)
        n = out.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](product, out, n, BLOCK=1024)
        return out
"""


def task(min_share: float) -> Task:
    return Task(
        id="test/partial",
        source=TASK,
        policy="partial",
        min_share=min_share,
        shapes={"small": {"ROWS": 24, "COLS": 40}},
    )


@pytest.mark.parametrize(("min_share", "outcome"), [(0.02, Outcome.CORRECT), (0.5, Outcome.TORCH_COMPUTE)])
def test_the_kernels_must_take_their_share(pool: VerifierPool, min_share: float, outcome: Outcome) -> None:
    verdict = pool.verify(task(min_share), Candidate(code=KERNEL.replace("PRODUCT", "x @ y")))
    assert verdict.outcome is outcome, verdict.detail
    assert dict(verdict.evidence.aten_ops) == {"aten.mm.default": 1}


def test_torchs_part_has_its_price(pool: VerifierPool) -> None:
    """An additional product costs as much as in eager mode."""
    one = pool.verify(task(0.0), Candidate(code=KERNEL.replace("PRODUCT", "x @ y")))
    two = pool.verify(task(0.0), Candidate(code=KERNEL.replace("PRODUCT", "(x @ y, x @ y)[1]")))
    assert one.timing is not None
    assert two.timing is not None
    assert one.evidence.cost is not None
    assert two.evidence.cost is not None
    assert (one.evidence.cost.launches, two.evidence.cost.launches) == (2, 3)
    assert two.timing.candidate_ms > 1.4 * one.timing.candidate_ms


LAYER = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(8, 48)

    def forward(self, x, y):
        return torch.relu(self.layer(x.view(8, -1, 8))[0])
"""


def test_a_recurrent_layer_beside_kernels_is_one_operator(pool: VerifierPool) -> None:
    head, tail = TASK.split("class Model")[0], "\ndef get_inputs" + TASK.split("def get_inputs")[1]
    posed = task(0.02).model_copy(update={"source": head.replace("4096, 2048", "256, 64") + LAYER + tail})
    layer = LAYER.split("    def forward")[0].replace("class Model(nn.Module):\n", "")
    code = KERNEL.replace("class ModelNew(nn.Module):\n", f"class ModelNew(nn.Module):\n{layer}")
    code = code.replace("PRODUCT", "self.layer(x.view(8, -1, 8))[0].contiguous()")
    verdict = pool.verify(posed, Candidate(code=code))
    assert verdict.correct, verdict.detail
    assert dict(verdict.evidence.aten_ops) == {"aten.gru.input": 1}
    assert verdict.timing is not None
    assert verdict.timing.speedup("compile") > 0.9


ATTENTION = """
class Model(nn.Module):
    def forward(self, x, y):
        q = x.view(-1, 2, 5, 4)
        return torch.relu(torch.nn.functional.scaled_dot_product_attention(q, q, q).view_as(x) + torch.nn.functional.rms_norm(x, x.shape[1:]))
"""


def test_attention_and_an_rms_norm_beside_kernels_are_one_operator_each_as_in_eager(
    pool: VerifierPool,
) -> None:
    head, tail = TASK.split("class Model")[0], "\ndef get_inputs" + TASK.split("def get_inputs")[1]
    posed = task(0.02).model_copy(update={"source": head.replace("4096, 2048", "256, 80") + ATTENTION + tail})
    done = ATTENTION.split("torch.relu(")[1].strip()[:-1].replace("q, q, q", "*(3 * [x.view(-1, 2, 5, 4)])")
    verdict = pool.verify(posed, Candidate(code=KERNEL.replace("PRODUCT", f"({done})")))
    assert verdict.correct, verdict.detail
    names = {"scaled_dot_product_attention.default", "rms_norm.default", "add.Tensor"}
    assert dict(verdict.evidence.aten_ops) == {f"aten.{name}": 1 for name in names}
    assert verdict.timing is not None
    assert verdict.evidence.cost is not None
    assert verdict.evidence.reference_cost is not None
    assert verdict.evidence.cost.launches == verdict.evidence.reference_cost.launches == 4
