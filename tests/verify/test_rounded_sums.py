"""Sums of products of which a compiler makes TF32 products."""

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from kernelwright.verify.interpret.interpreter import Engine
from kernelwright.verify.interpret.number_formats import to_tf32
from kernelwright.verify.interpret.verification import _TF32


@triton.jit
def sum_kernel(x_ptr, y_ptr, out_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    base = tl.program_id(0) * SIZE * SIZE
    x = tl.load(x_ptr + base + at[:, None] * SIZE + at[None, :])
    y = tl.load(y_ptr + base + at[:, None] * SIZE + at[None, :])
    total = tl.sum(x[:, :, None] * y[None, :, :], axis=1)
    tl.store(out_ptr + base + at[:, None] * SIZE + at[None, :], total * 1.0009765625)


@pytest.mark.parametrize("rounding", [False, True])
def test_only_factors_of_three_axes_are_rounded(rounding: bool) -> None:
    torch.manual_seed(0)
    x, y, out = torch.randn(4, 8, 8), torch.randn(4, 8, 8), torch.zeros(4, 8, 8)
    engine = Engine(lambda launch: 1.0)
    engine.rounding = rounding
    with engine.installed():
        engine.launch(sum_kernel, (4,), (x, y, out), {"SIZE": 8})
    short, shorter = (to_tf32(TensorHandle(one.numpy(), tl.float32)).data for one in (x, y))
    expected = (torch.from_numpy(short @ shorter) if rounding else x @ y) * 1.0009765625
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    assert torch.allclose(out, x @ y * 1.0009765625, rtol=1e-5, atol=1e-5) != rounding


def test_conversions_are_no_products() -> None:
    assert _TF32.search("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {")
    assert _TF32.search("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {")
    assert not _TF32.search(
        "cvt.rna.tf32.f32 %r1, %r2; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {"
    )
