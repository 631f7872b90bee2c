"""How far roundings move an output: no honest kernel is called wrong, and no more than that is allowed."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.records import Task
from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference import roundings
from kernelwright.verify.reference.comparison import compare
from kernelwright.verify.reference.expected import expected_of, rms_difference
from kernelwright.verify.reference.gpu_cases import GpuCases

STRICT = PROTOCOLS["strict"]
EPS = torch.finfo(torch.float32).eps
X = torch.linspace(-30.0, 30.0, 20_001, dtype=torch.float64)


class Module(nn.Module):
    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = forward


def moved(forward: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    exact = forward(*(tensor.double() for tensor in inputs))
    return roundings.largest_moves(Module(forward), list(inputs), [exact])[0]


@pytest.mark.parametrize(
    "function",
    [
        *(
            torch.log1p,
            torch.expm1,
            torch.tanh,
            F.gelu,
            F.softplus,
            F.mish,
            F.elu,
            F.selu,
            F.celu,
            F.logsigmoid,
        ),
        *(
            lambda x: F.gelu(x, approximate="tanh"),
            lambda x: F.softplus(x, 2.0, 5.0),
            lambda x: F.elu(x, 0.3),
        ),
    ],
)
def test_what_is_spelled_out_is_the_same_operation(function: Callable[..., torch.Tensor]) -> None:
    x = X.abs() if function is torch.log1p else X
    far = roundings.largest_moves(Module(function), [x], [function(x)])[0]
    assert bool((far <= 1e-13 * (1.0 + function(x).abs())).all())


@pytest.mark.parametrize("fused", [True, False])
def test_what_cancels_behind_a_softmax_of_one_number_is_not_held_to_nothing(fused: bool) -> None:
    gradient = torch.randn(1, 2, 1, 8, generator=torch.Generator().manual_seed(0))

    def of_queries(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query = query.detach().requires_grad_()
        if fused:
            out = F.scaled_dot_product_attention(query, key, value)
        else:
            out = torch.softmax(query @ key.transpose(-1, -2), dim=-1) @ value
        return torch.autograd.grad(out, query, gradient.to(out.dtype))[0]

    given = [torch.randn(1, 2, 1, 8, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2, 3)]
    strayed = moved(of_queries, *given)
    assert (strayed > 0).all()
    assert (strayed < 1e-4).all()


def test_the_backward_pass_of_an_attention_is_spelled_out_as_it_is() -> None:
    seen = []

    class Compared(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            spelled = roundings._ELEMENTARY.get(func._schema.name)
            if spelled is not None:
                seen.append(func._schema.name)
                torch.testing.assert_close(made, spelled(*args, **(kwargs or {})))
            return made

    query, key, value = (torch.randn(1, 2, 7, 8, requires_grad=True) for _ in range(3))
    with Compared():
        F.scaled_dot_product_attention(query, key, value, is_causal=True).sum().backward()
        torch.softmax(query, dim=-1).pow(2).sum().backward()
    assert len(seen) == 3


def test_a_maximum_may_be_off_by_a_rounding_which_overflows_for_scores_of_1e12_alone() -> None:
    x = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    softmax = functools.partial(torch.softmax, dim=-1)
    assert bool((moved(softmax, 30.0 * x) < 1e-3).all())
    assert bool(moved(softmax, 1e6 * x).isfinite().all())
    assert bool(moved(softmax, 1e12 * x).isinf().any())


def _fused(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(query, key, value, scale=1.0)


def _spelled(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.softmax(query @ key.transpose(-1, -2), dim=-1) @ value


@pytest.mark.parametrize("forward", [_fused, _spelled])
def test_weights_and_their_sum_may_see_different_roundings_of_a_score(forward: Callable[..., Any]) -> None:
    """On an H100 a sum over threads ends in a contracted product: one weight of 1 was off by the spacing of scores, 2^-13."""
    query, key, value = (torch.randn(1, 2, 5, 16) for _ in range(3))
    by = moved(forward, 30.0 * query, 30.0 * key, 30.0 * value)
    out = forward(*(30.0 * one.double() for one in (query, key, value)))
    scores = (900.0 * query @ key.transpose(-1, -2)).amax(-1, keepdim=True)
    assert bool((by >= out.abs() * EPS * scores / 2.0)[scores.expand_as(by) > 0].all())
    assert bool((by <= 30.0 * 4.0 * (EPS * 4.0 * scores.abs() + 1e-5)).all())
    usual = moved(forward, query, key, value)
    assert bool((usual < 1e-4).all())


def _attention_backward(kept: Callable[[torch.Tensor], torch.Tensor], *given: torch.Tensor) -> torch.Tensor:
    """The gradient of queries from the output that a forward pass has `kept`, all else in single precision."""
    query, key, value, gradient = (one.float() for one in given)
    weights = torch.softmax(query @ key.transpose(-1, -2), dim=-1)
    of_rows = (gradient * kept((weights @ value).half()).float()).sum(-1, keepdim=True)
    return (weights * (gradient @ value.transpose(-1, -2) - of_rows)) @ key


def test_a_softmax_may_be_followed_back_by_the_half_precision_output_that_was_kept() -> None:
    def of_queries(*given: torch.Tensor) -> torch.Tensor:
        query, key, value, gradient = given
        query = query.detach().requires_grad_()
        scores = query @ key.transpose(-1, -2)
        weights = torch.softmax(scores.double() if query.dtype == torch.float64 else scores.float(), dim=-1)
        out = weights.to(query.dtype) @ value
        return torch.autograd.grad(out, query, gradient)[0]

    refused = 0
    for seed in range(6):
        dice = torch.Generator().manual_seed(seed)
        given = [(torch.randn(2, 48, 32, generator=dice).abs() + 4.0).half() for _ in range(4)]
        given[0].neg_()
        exact = of_queries(*(one.double() for one in given))
        expected = expected_of(exact, of_queries(*given))
        with_roundings = dataclasses.replace(expected, moved=moved(of_queries, *given))
        right = _attention_backward(lambda out: out, *given).half()
        refused += bool(compare(0, right, expected, STRICT).kind)
        assert not compare(0, right, with_roundings, STRICT).kind
        for wrong in (lambda out: out * 0.95, lambda out: out.to(torch.float8_e4m3fn)):
            assert compare(0, _attention_backward(wrong, *given).half(), with_roundings, STRICT).kind
    assert refused, "or this shows nothing"


def test_what_was_kept_in_half_precision_sets_the_spread_where_one_key_has_all_the_weight() -> None:
    """There the reference's own sums cancel exactly."""

    def of_queries(*given: torch.Tensor) -> torch.Tensor:
        query, key, value, gradient = given
        query = query.detach().requires_grad_()
        scores = query @ key.transpose(-1, -2)
        weights = torch.softmax(scores.double() if query.dtype == torch.float64 else scores.float(), dim=-1)
        return torch.autograd.grad(weights.to(query.dtype) @ value, query, gradient)[0]

    for seed in range(4):
        dice = torch.Generator().manual_seed(seed)
        query, key, value, gradient = (-torch.randn(2, 48, 32, generator=dice).abs() for _ in range(4))
        key[:, 0] -= 0.6
        given = [one.half() for one in (query, key, value, gradient)]
        exact = of_queries(*(one.double() for one in given))
        (held,) = roundings.with_kept_in_half(Module(of_queries), given) or [exact]
        right = _attention_backward(lambda out: out, *given).half()
        wrong = _attention_backward(lambda out: out.to(torch.float8_e4m3fn), *given).half()
        own, far = (rms_difference(exact, one) for one in (of_queries(*given), held))
        assert 2.0 * own < rms_difference(exact, right) < far
        assert rms_difference(exact, wrong) > 20.0 * far
    assert roundings.with_kept_in_half(Module(torch.relu), [torch.zeros(4).half()]) is None


def test_a_share_may_be_made_of_the_logarithm_that_was_kept() -> None:
    """Far from zero, a row's kept logarithm has fewer digits than the differences of its elements."""

    def shares(x: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(x, dim=-1).exp()

    refused = 0
    for seed in range(6):
        x = -1e4 - 100.0 * torch.randn(64, 32, generator=torch.Generator().manual_seed(seed)).abs()
        expected = expected_of(shares(x.double()), shares(x))
        with_roundings = dataclasses.replace(expected, moved=moved(shares, x))
        kept = torch.logsumexp(x, dim=-1, keepdim=True)
        refused += bool(compare(0, (x - kept).exp(), expected, STRICT).kind)
        assert not compare(0, (x - kept).exp(), with_roundings, STRICT).kind
        assert compare(0, (x - kept.bfloat16().float()).exp(), with_roundings, STRICT).kind
        assert compare(0, (x - kept + 0.1).exp(), with_roundings, STRICT).kind
    assert refused, "or this shows nothing"


def test_one_operation_moves_an_element_by_a_rounding_or_two_of_each_number() -> None:
    x = torch.rand(1000) + 1.0
    share = moved(torch.exp, x) / (x.double().exp() * EPS)
    assert share.min() > 0.5
    assert share.max() < 2.0 + 2.0 * 2.0 + 1.0, "the input twice, times at most 2, and the result twice"


def test_views_weights_and_integers_do_not_move() -> None:
    weight = torch.rand(8, 8)
    exact = [torch.arange(8), weight.T.reshape(8, 8)]

    def forward(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.arange(8), weight.T]

    for far in roundings.largest_moves(Module(forward), [torch.rand(3)], exact):
        assert not far.any()


def test_what_is_no_number_does_not_move() -> None:
    far = moved(lambda x: torch.log(x), torch.tensor([-1.0, 0.0, 2.0]))
    assert far[:2].tolist() == [0.0, 0.0]
    assert far[2] > 0.0


def test_neither_inputs_nor_weights_nor_the_callers_random_state_change() -> None:
    layer = nn.BatchNorm1d(8)
    x = torch.randn(4, 8)
    before, state, kept = (
        x.clone(),
        {k: v.clone() for k, v in layer.state_dict().items()},
        torch.get_rng_state(),
    )
    roundings.largest_moves(layer, [x], [torch.zeros(4, 8, dtype=torch.float64)])
    assert torch.equal(x, before)
    assert torch.equal(torch.get_rng_state(), kept)
    assert all(torch.equal(value, state[name]) for name, value in layer.state_dict().items())


CASES = {
    "a norm over equal numbers": (
        lambda x: F.layer_norm(x * 0 - 0.26894143, (x.shape[-1],)),
        lambda x: _norm(x * 0 - 0.26894143),
    ),
    "mish far below zero": (lambda x: F.mish(x - 12.0), lambda x: (x - 12.0) * torch.tanh(torch.log(1 + torch.exp(x - 12.0)))),
}  # fmt: skip


def _norm(x: torch.Tensor) -> torch.Tensor:
    away = x - (x * (1.0 / x.shape[-1])).sum(-1, keepdim=True)
    return away * torch.rsqrt((away * away).sum(-1, keepdim=True) * (1.0 / x.shape[-1]) + 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_another_honest_formula_passes_and_half_precision_does_not(name: str) -> None:
    reference, other = CASES[name]
    refused = 0
    for seed in range(12):
        x = torch.randn(8, 1211, generator=torch.Generator().manual_seed(seed))
        exact = reference(x.double())
        expected = expected_of(exact, reference(x))
        with_roundings = dataclasses.replace(expected, moved=moved(reference, x))
        refused += bool(compare(0, other(x), expected, STRICT).kind)
        assert not compare(0, other(x), with_roundings, STRICT).kind
        assert compare(
            0, exact.float() + exact.abs().max().float() * 1e-2 + 1e-2, with_roundings, STRICT
        ).kind
    assert refused, "or this shows nothing"


def test_lost_digits_still_show() -> None:
    """If nothing is ill-conditioned, roundings allow no more than before."""
    x = torch.randn(64, 256)
    w = torch.randn(256, 64)

    def forward(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x @ w.to(x.dtype))

    expected = expected_of(forward(x.double()), forward(x))
    expected = dataclasses.replace(expected, moved=moved(forward, x))
    assert not compare(0, forward(x), expected, STRICT).kind
    for dtype in (torch.bfloat16, torch.float16):
        assert compare(0, F.gelu(x.to(dtype).float() @ w), expected, STRICT).kind


TASK = """
import torch
import torch.nn as nn

N = 64

class Model(nn.Module):
    def forward(self, x, y):
        return nn.functional.mish(x - y - 12.0)

def get_inputs():
    return [torch.randn(N, 32), torch.randn(N, 32)]

def get_init_inputs():
    return []
"""


def test_what_is_clocked_is_judged_alike() -> None:
    task = Task(id="test/mish", source=TASK, shapes={"full": {}})
    cases = GpuCases(task, "full", {}, STRICT, [(1.0, 7)], "cpu", full=True)
    x, y = cases.audit.inputs()
    z = x - y - 12.0
    assert cases.audit.compare([F.mish(z)], STRICT) is None
    spelled = z * torch.tanh(torch.log(1.0 + torch.exp(z)))
    assert compare(0, spelled.reshape(-1), cases.audit.samples[0].expected, STRICT).kind == "low_precision"
    assert cases.audit.compare([spelled], STRICT) is None
    assert cases.audit.compare([F.mish(z) + 1e-4], STRICT) is not None
    assert cases.audit.compare([F.mish(z) * 1.01], STRICT) is not None


def test_inputs_in_half_precision_are_what_they_are() -> None:
    """Kernels sum them in single precision: a product is off by one rounding of the result, not of each term."""
    x, w = torch.randn(16, 512).half(), torch.randn(512, 16).half()
    exact = x.double() @ w.double()
    (far,) = roundings.largest_moves(Module(lambda x: x @ w), [x], [exact])
    assert bool((far <= 3.0 * torch.finfo(torch.float16).eps * exact.abs() + 1e-4).all())


def _codes(x: torch.Tensor) -> torch.Tensor:
    return torch.round(x / (x.abs().amax() / 127.0)).clamp(-128.0, 127.0).to(torch.int8)


def _codes_by_a_factor(x: torch.Tensor) -> torch.Tensor:
    return torch.round(x * (127.0 / x.abs().amax())).clamp(-128.0, 127.0).to(torch.int8)


def test_whole_numbers_that_a_rounding_decides_may_be_either() -> None:
    """A GPU divides by a Python number through its reciprocal, so codes next to a tie differ from a CPU's."""
    refused = 0
    for seed in range(12):
        x = torch.randn(64, 256, generator=torch.Generator().manual_seed(seed))
        x[0, :8] = (torch.arange(8) + 20.5) * (x.abs().amax() / 127.0)
        honest = _codes(x)
        expected = expected_of(honest, honest)
        far = roundings.largest_moves(Module(_codes), [x], [honest])[0]
        with_roundings = dataclasses.replace(expected, moved=far)
        refused += bool(compare(0, _codes_by_a_factor(x), expected, STRICT).kind)
        assert not compare(0, _codes_by_a_factor(x), with_roundings, STRICT).kind
        assert compare(0, honest + 1, with_roundings, STRICT).kind
        assert compare(0, torch.where(x > 2.0, honest - 1, honest), with_roundings, STRICT).kind
    assert refused, "or this shows nothing"


def _first_expert(scores: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The output of the one of two experts with the higher score, by row."""
    return torch.where(scores[:, :1] > scores[:, 1:], x.sin(), x.cos())


def test_a_row_for_which_a_rounding_picks_the_expert_says_nothing_of_the_digits_of_others() -> None:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(64, 128, generator=generator).bfloat16()
    scores = torch.randn(64, 2, generator=generator).bfloat16()
    scores[3] = torch.tensor([1.0, 1.0])
    above = torch.zeros_like(scores, dtype=torch.float64)
    above[3, 0] = 2.0**-10  # a tie in bfloat16 only
    exact = _first_expert(scores.double() + above, x.double())
    expected = expected_of(exact, exact.bfloat16())
    module = Module(lambda scores, x: _first_expert(scores * 1.0, x))
    far = roundings.largest_moves(module, [scores, x], [exact])[0]
    with_roundings = dataclasses.replace(expected, moved=far)
    other = _first_expert(scores, x)  # the second expert, for row 3
    assert compare(0, other, expected, STRICT).kind
    assert not compare(0, other, with_roundings, STRICT).kind
    rounded_anew = dataclasses.replace(expected, moved=(other.double() - exact).abs())
    off_again = torch.where((other == other[3]), (other.double() * (1.0 + 2.0**-8)).bfloat16(), other)
    assert not compare(0, off_again, rounded_anew, STRICT).kind
    assert compare(0, other.to(torch.float8_e4m3fn).bfloat16(), with_roundings, STRICT).kind
    off = (other.double() * (1.0 + 2.0**-7)).bfloat16()
    assert compare(0, off, with_roundings, STRICT).kind == "low_precision"


def test_what_ties_exactly_is_held_among_special_values_and_what_a_rounding_decides_is_not() -> None:
    """`2 x >= 1` is exact; a product that bfloat16 rounds to its threshold is not."""
    x = torch.tensor([0.25, 0.5, 0.75]).repeat(50)
    [tied] = roundings.largest_moves(Module(lambda x: 2.0 * x >= 1.0), [x], [2.0 * x >= 1.0], ties=True)
    assert not bool(tied.any())
    y = torch.full((300,), 1.0 / 3.0)
    fraction = Module(lambda y: (y * 3.1).to(torch.bfloat16) <= 1.0333)
    [decided] = roundings.largest_moves(fraction, [y], [fraction(y)], ties=True)
    assert bool(decided.all())


def test_equal_values_are_off_by_the_same() -> None:
    x = torch.linspace(0.1, 3.0, 200).repeat(2)
    same = Module(lambda x: x[:200].exp() == x[200:].exp())
    [far] = roundings.largest_moves(same, [x], [same(x)], ties=True)
    assert not bool(far.any())
    [far] = roundings.largest_moves(same, [x], [same(x)])
    assert bool(far.all())


def test_where_a_rounding_decides_between_nothing_and_infinity_either_is_right() -> None:
    x = -1e20 * (1.0 + torch.rand(64, generator=torch.Generator().manual_seed(0)))

    def remaining(x: torch.Tensor) -> torch.Tensor:  # of a decay, as in a scan by chunks
        return torch.exp(x.sum() - x.cumsum(0))

    exact = remaining(x.double())
    assert bool(torch.isfinite(exact).all())
    far = moved(remaining, x)
    assert far[-1] == torch.inf
    assert not far[0]


def test_as_many_more_infinities_are_undecided_as_roundings_were_seen_to_make() -> None:
    exact = torch.linspace(1.0, 2.0, 400, dtype=torch.float64)
    seen = torch.zeros_like(exact)
    seen[:100] = torch.inf
    expected = dataclasses.replace(expected_of(exact, exact.float()), moved=seen)
    for bad in (torch.inf, torch.nan):
        got = exact.float()
        got[50:200] = bad
        assert not compare(0, got, expected, STRICT).kind
        got[50:201] = bad
        assert compare(0, got, expected, STRICT).kind == "non_finite"
    got = exact.float()
    got[200] = 3.0
    assert compare(0, got, expected, STRICT).kind == "wrong_value"


def test_an_infinity_that_no_rounding_made_counts_for_none() -> None:
    x = torch.full((64,), -torch.inf)
    x[:8] = torch.arange(8.0)
    assert not torch.isinf(moved(lambda x: x * 2.0, x)).any()
    far = moved(lambda x: (x * 1e38).exp() - x.exp(), x.masked_fill(x.isinf(), 0.0))
    assert not torch.isinf(far[8:]).any()


def test_inputs_that_a_reference_refuses_a_rounding_away_stay() -> None:
    p = torch.tensor([0.0, 0.25, 1.0])
    far = moved(_entropy, p)
    assert far[1] > 0
    assert far[2] < 1e-3  # a rounding of p would make 100 of a loss of 0


def _entropy(p: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy(p, torch.ones_like(p), reduction="none")


def test_the_terms_of_a_layer_norms_gradient_cancel_up_to_a_rounding() -> None:
    x = torch.randn(4, 1)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (found,) = torch.autograd.grad(F.layer_norm(x, (1,)).sum(), x)
            return found

    far = moved(gradient, x)
    assert EPS < float(far.max()) < 1e4 * EPS


def test_with_given_inputs_no_rounding_decides_at_a_bound() -> None:
    x = torch.tensor([0.5, 1.0])
    exact = [F.hardshrink(x.double(), 0.5) + 1.0]
    module = Module(lambda x: F.hardshrink(x.clone(), 0.5) + 1.0)
    assert roundings.largest_moves(module, [x], exact)[0][0] > 0.1
    assert roundings.largest_moves(module, [x], exact, given=True)[0][0] < 1e-6


def test_what_torch_itself_makes_of_roundings_counts() -> None:
    """Exact cancellation, which no random rounding makes."""
    tiny = torch.full((4,), 1e-9)

    def forward(x: torch.Tensor) -> torch.Tensor:
        return ((x + 1.0) - 1.0 == 0.0).float()

    [far] = roundings.largest_moves(Module(forward), [tiny], [forward(tiny.double()).double()])
    assert far.tolist() == [1.0] * 4
