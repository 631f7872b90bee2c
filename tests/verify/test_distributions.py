"""Inputs near one number: all roundings of a running total go in one direction."""

import pytest
import torch

from kernelwright.verify.reference.distributions import near_one_number


@pytest.mark.parametrize("block", [32, 64, 128])
def test_a_total_that_is_rounded_after_each_block_is_off_in_every_draw(block: int) -> None:
    for seed in range(20):
        drawn = torch.randn(2, 8192, generator=torch.Generator().manual_seed(seed)).bfloat16()
        made = near_one_number(drawn, seed)
        assert isinstance(made, torch.Tensor)
        parts, total, worst = (
            made[1].double().view(-1, block).sum(-1),
            torch.zeros((), dtype=torch.float64),
            0.0,
        )
        for part, exact in zip(parts, parts.cumsum(0), strict=True):
            total = (total + part).bfloat16().double()
            worst = max(worst, abs(float(total / exact) - 1))
        assert worst > 0.022, seed


def test_zeros_and_the_sign_of_most_stay() -> None:
    drawn = -torch.rand(4, 64).bfloat16() * (torch.arange(64) % 4 > 0)
    made = near_one_number(drawn, 1)
    assert isinstance(made, torch.Tensor)
    assert torch.equal(made == 0, drawn == 0)
    assert bool((made <= 0).all())


def test_a_tensor_without_elements_stays() -> None:
    empty = torch.zeros(4, 0, dtype=torch.bfloat16)
    assert near_one_number([empty], 1) == [empty]
