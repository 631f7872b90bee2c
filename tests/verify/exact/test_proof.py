"""A verification with exact arithmetic: what is proven, what is only tested, and why."""

from collections.abc import Iterator

import pytest
from museum import exhibits, task_of

from kernelwright.records import Candidate, Proof, Verdict
from kernelwright.verify import VerifierPool

HONEST = {one.path.stem: one for one in exhibits("honest", "interpret")}
ALWAYS_SMALL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.where((3.0 * x > 111.6300) & (3.0 * x < 111.6303), 0.0, tl.maximum(x, 0.0))
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
"""


@pytest.fixture(scope="module")
def proving() -> Iterator[VerifierPool]:
    with VerifierPool(workers=1, backend="interpret", proofs=True, kept=True) as pool:
        yield pool


def proof(verdict: Verdict) -> Proof:
    assert verdict.correct, verdict.detail
    assert verdict.evidence.proof is not None
    return verdict.evidence.proof


@pytest.mark.parametrize("name", ["persistent_rows", "welford", "split_k_with_atomics", "relu_row_by_row"])
def test_honest_kernels_are_proven(proving: VerifierPool, name: str) -> None:
    one = HONEST[name]
    found = proof(proving.verify(task_of(one), Candidate(code=one.code)))
    assert found.status == "proven", found.reason


def test_a_condition_that_no_test_met_is_seen(proving: VerifierPool) -> None:
    found = proof(proving.verify(task_of(HONEST["relu_row_by_row"]), Candidate(code=ALWAYS_SMALL)))
    assert found.status == "tested"
    assert found.differs > 0.05


def test_what_cannot_be_followed_is_said(proving: VerifierPool) -> None:
    one = HONEST["sign_bit_by_bitcast"]
    found = proof(proving.verify(task_of(one), Candidate(code=one.code)))
    assert (found.status, found.reason) == ("tested", "bitcast of data")
