"""Convolutions as matrix products: what torch's own say, for any geometry."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.verify import fp64
from kernelwright.verify.footprint import Live

small = st.integers(1, 3)


@st.composite
def calls(draw: Any) -> tuple[Any, ...]:
    """Arguments of `aten.convolution`."""
    rank, transposed, groups = draw(small), draw(st.booleans()), draw(st.integers(1, 2))
    each = st.tuples(*[small] * rank)
    window, stride, dilation = draw(each), draw(each), draw(each)
    padding = tuple(
        min(draw(st.integers(0, 1)), d * (k - 1) // 2) for d, k in zip(dilation, window, strict=True)
    )
    ins, outs = draw(small) * groups, draw(small) * groups
    space = tuple(d * (k - 1) + draw(st.integers(1, 4)) for d, k in zip(dilation, window, strict=True))
    x = torch.randn(draw(small), ins, *space, dtype=torch.float64)
    weight = torch.randn(
        *((ins, outs // groups) if transposed else (outs, ins // groups)), *window, dtype=torch.float64
    )
    bias = torch.randn(outs, dtype=torch.float64) if draw(st.booleans()) else None
    more = tuple(min(s, d) - 1 if transposed else 0 for s, d in zip(stride, dilation, strict=True))
    return (
        x, weight, bias, list(stride), list(padding), list(dilation), transposed, list(more), groups,
    )  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(call=calls())
def test_products_are_convolutions(call: tuple[Any, ...]) -> None:
    expected = torch.ops.aten.convolution(*call)
    torch.testing.assert_close(fp64.convolution(*call), expected, rtol=1e-12, atol=1e-12)


def test_what_is_unfolded_is_counted() -> None:
    module = torch.nn.Conv2d(6, 8, 3, groups=2, bias=False, device="meta")
    image, volume = (torch.empty(2, 6, *space, device="meta") for space in ((10, 12), (3, 4, 5)))
    with Live() as live, torch.no_grad():
        out = module(image)
    assert live.peak == 4 * (math.prod(out.shape) + 3 * 9 * 8 * 10)
    back = torch.nn.ConvTranspose3d(6, 8, 2, stride=2, bias=False, device="meta")
    with Live() as live, torch.no_grad():
        out = back(volume)
    assert live.peak == 4 * (math.prod(out.shape) + 8 * 8 * 60)


@pytest.mark.gpu
@pytest.mark.parametrize("groups", [1, 4, 32])
def test_a_gpus_products_are_cudnns(groups: int) -> None:
    x = torch.randn(3, 32, 20, 21, dtype=torch.float64, device="cuda")
    for module in (
        torch.nn.Conv2d(32, 64, 3, padding=1, groups=groups),
        torch.nn.ConvTranspose2d(32, 64, 3, stride=2, output_padding=1, groups=groups),
    ):
        module.to(x)
        with torch.no_grad():
            expected = module(x)
            with fp64.Products():
                got = module(x)
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
