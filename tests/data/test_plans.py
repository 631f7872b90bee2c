"""Plans are read off the code, in the order in which it computes, and what is not so is found out."""

import textwrap

import pytest

from kernelwright.data import plans
from kernelwright.data.launches import launches

TWO_KERNELS = textwrap.dedent(
    """
    import torch
    import triton
    import triton.language as tl

    BLOCK = 256


    @triton.jit
    def linear_kernel(a_ptr, w_ptr, b_ptr, scale, out_ptr, M, K, BM: tl.constexpr, BK: tl.constexpr):
        m = tl.program_id(0) * BM + tl.arange(0, BM)
        acc = tl.zeros((BM, BM), dtype=tl.float32)
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None], other=0.0)
            w = tl.load(w_ptr + k[:, None] * K + m[None, :])
            acc = tl.dot(a, w, acc, input_precision="tf32x3")
        bias = tl.load(b_ptr + m).to(tl.float32)
        acc = (acc + bias[None, :]) * scale
        acc = tl.where(acc > 0.0, acc, tl.exp(acc) - 1.0)
        tl.store(out_ptr + m, tl.maximum(-acc, 0.0))


    @triton.jit
    def mean_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        row_ptr = x_ptr + tl.program_id(0).to(tl.int64) * n
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, n, BLOCK):
            at = start + tl.arange(0, BLOCK)
            x = tl.load(row_ptr + at, mask=at < n, other=0.0)
            total += tl.where(at < n, x, 0.0)
        mean = tl.sum(total, 0) / n
        tl.store(out_ptr + tl.program_id(0), 2.0 - mean * mean)


    def run(a, w, b, out, n):
        block = triton.next_power_of_2(n)
        linear_kernel[(triton.cdiv(n, 64), n)](a, w, b, 2.0, a, n, n, BM=64, BK=32, num_warps=8)
        mean_kernel[(n,)](a, out, n, BLOCK=block, num_warps=max(1, block // 256))
    """
)
PLAN = """\
linear_kernel: cdiv(n, 64) x n programs, 8 warps, BM=64, BK=32
reads a, w, b; loop(dot tf32x3), + b, * scale, exp, - 1.0, where, neg, maximum 0.0; writes out
mean_kernel: n programs, BLOCK=whole row
reads x; loop(+ x), sum, / n, * mean, 2.0 -; writes out; 64-bit offsets"""


def test_a_plan_has_two_lines_a_launch_and_is_true_of_its_code() -> None:
    assert plans.plan(TWO_KERNELS) == PLAN
    assert plans.problems(PLAN, TWO_KERNELS) == []


@pytest.mark.parametrize(
    ("true", "lie"),
    [
        ("BM=64", "BM=128"),
        ("8 warps", "4 warps"),
        ("cdiv(n, 64) x n programs", "n programs"),
        ("reads a, w, b", "reads a, out"),
        ("writes out\n", "writes a\n"),
        ("+ b, * scale", "* scale, + b"),
        ("loop(+ x), sum", "sum"),
        ("BLOCK=whole row", "BLOCK=256"),
        ("64-bit offsets", "64-bit offsets, 3 kernels"),
    ],
)
def test_each_claim_is_held_against_the_kernel_that_it_is_made_of(true: str, lie: str) -> None:
    assert true in PLAN
    assert plans.problems(PLAN.replace(true, lie), TWO_KERNELS)


@pytest.mark.parametrize("lie", ["whole rows in tiles of 7", "7 loads", "1 store", "BLOCK=64", "2 warps"])
def test_loose_claims_are_held_against_all_kernels(lie: str) -> None:
    code = TWO_KERNELS.replace("max(1, block // 256)", "4")
    assert plans.problems(lie, code)
    assert plans.problems(
        "5 loads and 2 stores by 2 kernels; 4/8 warps? I like it, with whole rows", code
    ) == [
        "says 4/8 warps, the code uses 4 warps, 8 warps",
        "says 5 loads, the code has 4",
    ]


def test_what_is_computed_is_no_claim_and_code_that_does_not_parse_has_no_plan() -> None:
    assert [launch.warps for launch in launches(TWO_KERNELS)] == [frozenset({8}), None]
    assert not plans.is_true("2 kernels", "def")
    assert plans.plan("x = 1") == ""
