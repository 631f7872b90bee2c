"""Outputs that are what a rounding leaves are expected as the reference makes them; noise is not."""

import pytest
import torch
from torch import nn

from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference.cases import make_case

X = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))


def low_part(x):
    return (x - x.bfloat16().float()).bfloat16()


def noise_of_a_cast(x):
    return (x - x.bfloat16().float()).square().mean(-1)


def eight_bits(x):
    return x - x.to(torch.float8_e4m3fn).float()


def error_of_a_sum(x):
    total = x + 3.0
    return (x - (total - (total - x))) + (3.0 - (total - x))


def whole_part_is_left(x):
    return x - ((x + 12582912.0) - 12582912.0)


def mean_of_centred(x):
    return (x - x.mean(-1, keepdim=True)).mean(-1)


def one_less_its_exponential(x):
    return (x * 1e-9).exp() - 1.0


def centred_in_half(x):
    x = x.bfloat16()
    return (x - x.mean(-1, keepdim=True)).sum(-1)


def is_residual(forward):
    class Module(nn.Module):
        def forward(self, x):
            return forward(x)

    case = make_case("x", Module(), [X.clone()], PROTOCOLS["strict"])
    assert case is not None
    return case.expected[0].residual


@pytest.mark.parametrize("forward", [low_part, noise_of_a_cast, error_of_a_sum, whole_part_is_left])
def test_what_a_rounding_leaves_is_expected_as_the_reference_makes_it(forward):
    assert is_residual(forward)


def test_casts_to_8_bits_round_in_double_as_well():
    assert not is_residual(eight_bits)


@pytest.mark.parametrize("forward", [mean_of_centred, one_less_its_exponential, centred_in_half])
def test_noise_is_no_residual(forward):
    assert not is_residual(forward)


def test_what_is_left_in_an_input_counts_as_well():
    class Step(nn.Module):
        def forward(self, weight, lost, update):
            update = update + lost.float()
            new = (weight.float() + update).bfloat16()
            lost.copy_(update - (new.float() - weight.float()))
            weight.copy_(new)

    given = [X.bfloat16(), torch.zeros(4, 64).bfloat16(), X * 0.1]
    case = make_case("x", Step(), given, PROTOCOLS["strict"])
    assert case is not None
    assert {key: one.residual for key, one in case.after.items()} == {0: False, 1: True}
