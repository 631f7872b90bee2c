"""The oracle: its expected values, the error it allows, and its name for each kind of wrong result."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.drawing import DRAWING
from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.verify.judge import Judge
from kernelwright.verify.protocol import BELOW_ZERO, PROTOCOLS, protocol
from kernelwright.verify.reference import distributions
from kernelwright.verify.reference.cases import Case, make_case
from kernelwright.verify.reference.comparison import allowed_error, compare
from kernelwright.verify.reference.expected import Expected, expected_of
from kernelwright.verify.reference.oracle import _turn, shape_cases, telling
from kernelwright.verify.reference.task_module import INIT_SEED, Reference
from kernelwright.verify.trace.pretend_cuda import poison_

STRICT = PROTOCOLS["strict"]

MODULE = """
import torch
import torch.nn as nn
{extra}
N = {n}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}
    def forward(self, x):
        {body}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""


def task(body: str, inputs: str = "torch.randn(N)", n: int = 64, extra: str = "", init: str = "") -> Task:
    source = MODULE.format(body=body, inputs=inputs, n=n, extra=extra, init=init)
    return Task(id="test/task", source=source, shapes={"small": {}})


def cases(made: Task, rules: Any = STRICT, secret: int = 1) -> list[Case]:
    return Judge(rules, "h200", secret).cases(made)[0].cases


def kind(case: Case, got: torch.Tensor, rules: Any = STRICT) -> str:
    return compare(0, got, case.expected[0], rules).kind


def right(case: Case) -> torch.Tensor:
    expected = case.expected[0]
    return expected.value.reshape(expected.shape).to(expected.dtype)


SOFTMAX = task("return torch.softmax(x * 4, 0)")
DOUBLE = task("return x * 2")


# inputs


def test_the_same_secret_draws_the_same_inputs_and_another_draws_others() -> None:
    first, again, other = (cases(DOUBLE, secret=secret) for secret in (1, 1, 2))
    for a, b, c in zip(first, again, other, strict=True):
        assert torch.equal(a.inputs[0], b.inputs[0])
        assert not torch.equal(a.inputs[0], c.inputs[0])


def test_every_case_has_inputs_of_its_own() -> None:
    found = [case.inputs[0] for case in cases(DOUBLE)]
    ratios = [(b / a).std() for a in found for b in found if a is not b]
    assert min(ratios) > 0


def test_distributions_reach_from_tiny_to_far_and_negative() -> None:
    sizes = [float(case.inputs[0].abs().mean()) for case in cases(DOUBLE)]
    assert {1.0, 3.0, 0.01, -1.0} <= set(STRICT.distributions)
    assert min(sizes) < 0.05
    assert max(sizes) > 2.0


def test_one_distribution_is_below_zero_throughout_and_largest_at_an_edge() -> None:
    (case,) = (case for case in cases(DOUBLE) if case.scale == BELOW_ZERO)
    x = case.inputs[0]
    assert bool((x < -100).all())
    assert int(x.argmax()) in (0, x.numel() - 1)


def test_of_several_inputs_below_zero_products_are_below_zero_too() -> None:
    x, y = distributions.scale_inputs([torch.randn(5, 7), torch.randn(7, 5)], BELOW_ZERO)
    assert bool((x < 0).all())
    assert bool((x @ y < -80).all())


def test_zeros_and_strides_stay_below_zero() -> None:
    given = torch.randn(6, 4).t().tril()
    (changed,) = distributions.scale_inputs([given], BELOW_ZERO)
    assert torch.equal(changed == 0, given == 0)
    assert changed.stride() == given.stride()


@pytest.mark.parametrize("shape", [(1 << 20,), (1024, 1024), (16, 64, 32, 32), (16, 1 << 16)])
def test_a_part_of_an_uneven_input_has_not_the_mean_of_all(shape: tuple[int, ...]) -> None:
    """In most draws: by chance the large elements may fall into every part equally."""
    torch.manual_seed(0)
    strayed: list[list[float]] = [[], []]
    for seed in range(15):
        (given,) = distributions.uneven([torch.rand(shape)], seed)
        parts = (given.flatten()[: given.numel() * 3 // 4], given[::2])
        for found, part in zip(strayed, parts, strict=True):
            found.append(abs(float(part.mean()) / float(given.mean()) - 1))
    assert all(sorted(found)[7] > 1e-3 for found in strayed)


def test_zeros_symmetry_integers_and_seeds_of_uneven_inputs() -> None:
    square = torch.rand(40, 40).tril()
    (triangle, symmetric, whole, one), again = (
        distributions.uneven([square, square + square.t(), torch.arange(9), torch.ones(())], seed, -1.0)
        for seed in (3, 4)
    )
    assert torch.equal(triangle == 0, square == 0)
    assert torch.equal(symmetric, symmetric.t())
    assert torch.equal(whole, torch.arange(9))
    assert float(one) == -1.0
    assert not torch.equal(triangle, again[0])


def test_integer_inputs_are_never_scaled() -> None:
    made = task("return x.float().sum()", inputs="torch.randint(0, 9, (N,))")
    assert all(case.inputs[0].max() < 9 for case in cases(made))


def test_the_callers_random_state_is_put_back() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    cases(SOFTMAX)
    assert torch.equal(torch.get_rng_state(), before)


def test_no_run_of_a_reference_on_a_gpu_draws_between_anothers_seed_and_its_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A regression: the fp64 run of a live dropout advanced the generator while another task's inputs were drawn, so that one
    verification in a thousand failed under timing."""
    alone: list[bool] = []

    class Dropping(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            alone.append(DRAWING._is_owned())
            return torch.nn.functional.dropout(x).sum(1)

    for module in ("cases", "task_module"):
        monkeypatch.setattr(f"kernelwright.verify.reference.{module}.drawing", lambda inputs: DRAWING)
    make_case("small", Dropping(), [torch.rand(4, 64)], protocol("strict"))
    assert len(alone) > 2
    assert all(alone)


def test_weights_are_drawn_under_the_secret_and_are_public_where_a_protocol_varies_none() -> None:
    made = task("return self.w * x", init="        self.w = nn.Parameter(torch.randn(N))\n")
    first, again, second = (Judge(STRICT, "h200", secret).cases(made)[0].state["w"] for secret in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    public = Judge(protocol("kernelbench"), "h200", 1).cases(made)[0].state["w"]
    torch.manual_seed(INIT_SEED)
    assert torch.equal(public, torch.randn(64))


def test_shape_sets_change_the_constants() -> None:
    made = DOUBLE.model_copy(update={"shapes": {"small": {"N": 7}}})
    assert cases(made)[0].inputs[0].shape == (7,)


# a broken task is the user's error


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (task("return x.no_such_method()"), "no_such_method"),
        (task("return x", extra="raise RuntimeError('at load')"), "at load"),
        (task("return x", inputs="1/0"), "division by zero"),
        (task("return x / 0"), "not finite"),
        (Task(id="t/x", source="def get_inputs(): return []", shapes={"small": {}}), "no Model"),
        (Task(id="t/x", source="class Model: pass", shapes={"small": {}}), "no get_inputs"),
        (Task(id="t/x", source="x = (", shapes={"small": {}}), "t/x"),
    ],
)
def test_a_broken_task_is_one_line_for_the_user(made: Task, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        cases(made)
    assert "\n" not in str(caught.value)


# what the reference itself does


def test_a_reference_that_hands_its_input_back_is_known_to() -> None:
    (case, *_) = cases(task("return x"))
    assert case.aliases == [0]
    assert cases(DOUBLE)[0].aliases == [-1]


def test_a_reference_that_changes_its_input_is_known_to() -> None:
    (case, *_) = cases(task("x.mul_(2); return x + 0"))
    assert case.changed == [0]
    assert cases(DOUBLE)[0].changed == []


def test_nests_of_outputs_keep_their_form() -> None:
    (case, *_) = cases(task('return {"a": [x + 1, (x + 2, 5)]}'))
    assert case.structure == {"a": ["list", "*", ["tuple", "*", 5]]}
    assert len(case.expected) == 2


# tolerances


@pytest.mark.parametrize("rules", PROTOCOLS.values(), ids=lambda rules: rules.name)
@pytest.mark.parametrize(
    "made",
    [
        SOFTMAX,
        DOUBLE,
        task("return x.half() * 3"),
        task("return x.bfloat16() + 1"),
        task("return (x * 9).long()"),
    ],
    ids=["softmax", "double", "half", "bfloat", "long"],
)
def test_torchs_own_answer_passes(made: Task, rules: Any) -> None:
    module = Reference(made).build()
    for case in cases(made, rules):
        assert kind(case, module(*case.inputs), rules) == ""


@pytest.mark.parametrize(
    "body",
    [
        "torch.linalg.vector_norm(x.view(8, 8), dim=1, dtype=torch.float32)",
        "x.view(8, 8).sum(1, dtype=torch.float32)",
    ],
)
def test_a_dtype_that_the_reference_asks_for_is_no_limit_to_the_oracle(body: str) -> None:
    """torch cannot compute a norm of float64 in float32, so the reference's own rounded result was taken as exact."""
    for case in cases(
        task(
            f"return x * (1 / {body}.to(x.dtype)).repeat_interleave(8)",
            "torch.randn(N, dtype=torch.bfloat16)",
        )
    ):
        expected = case.expected[0]
        assert not expected.value.equal(expected.value.bfloat16().double())
        assert kind(case, expected.value.bfloat16()) == ""


@pytest.mark.parametrize("error", [1e-3, 1e-2, 1.0])
def test_an_error_above_the_preset_fails_under_every_protocol(error: float) -> None:
    for rules in PROTOCOLS.values():
        (case, *_) = cases(DOUBLE, rules)
        assert kind(case, right(case) + error, rules) in ("wrong_value", "low_precision")


def test_strict_never_allows_more_than_its_preset_near_the_tasks_own_scale() -> None:
    """Relative to the element or, where sums cancel, to the typical one."""
    rtol, atol = STRICT.preset("float32")
    for case in cases(SOFTMAX):
        expected = case.expected[0]
        if not case.name.endswith("x30"):
            value = expected.value.reshape(-1)
            allowed = allowed_error(expected, value, STRICT)
            assert bool((allowed <= atol + rtol * value.abs().clamp_min(expected.typical) + 1e-12).all())


def test_rounding_to_half_is_called_low_precision() -> None:
    for case in cases(task("return torch.sin(x)")):
        if case.name != "small, minute":  # half precision holds none of these
            assert kind(case, right(case).half().float()) == "low_precision"


def test_an_honest_reordering_of_a_sum_passes() -> None:
    made = task("return x.sum(0)", inputs="torch.randn(4096, 8)")
    for case in cases(made):
        (x,) = case.inputs
        assert kind(case, torch.cumsum(x, 0)[-1]) == ""
        assert kind(case, x.reshape(64, 64, 8).sum(1).sum(0)) == ""


def test_integers_and_booleans_are_exact() -> None:
    made = task("return (x > 0), (x * 100).long()")
    (case, *_) = cases(made)
    for index, expected in enumerate(case.expected):
        value = expected.value.reshape(expected.shape).to(expected.dtype)
        assert compare(index, value, expected, STRICT).kind == ""
        other = value.clone()
        other[3] = ~other[3] if other.dtype == torch.bool else other[3] + 1
        found = compare(index, other, expected, STRICT)
        assert found.kind == "wrong_value"
        assert found.mismatch is not None
        assert found.mismatch.index == (3,)
        assert found.mismatch.output == index


# kinds of wrong


def test_the_first_wrong_index_is_told() -> None:
    made = task("return x * 2", inputs="torch.randn(4, N)")
    (case, *_) = cases(made)
    got = right(case).clone()
    got[2, 5] += 1.0
    got[3, 1] += 1.0
    found = compare(0, got, case.expected[0], STRICT)
    assert found.mismatch is not None
    assert found.mismatch.index == (2, 5)
    assert found.mismatch.got - found.mismatch.expected == pytest.approx(1.0)
    assert found.mismatch.wrong_share == pytest.approx(2 / 256)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_told(value: float) -> None:
    (case, *_) = cases(SOFTMAX)
    got = right(case).clone()
    got[7] = value
    assert kind(case, got) == "non_finite"


@pytest.mark.parametrize("dtype", ["float", "double", "half", "bfloat16"])
def test_poison_is_told_from_other_nans(dtype: str) -> None:
    (case, *_) = cases(task(f"return x.{dtype}() * 2"))
    got = right(case).clone()
    got[7:9] = poison_(torch.empty(2, dtype=got.dtype))
    assert kind(case, got) == "unwritten"


@pytest.mark.parametrize("value", [math.nan, 0.0, math.inf, 1e30])
def test_infinity_must_be_met_by_infinity(value: float) -> None:
    made = task("y = x.clone(); y[0] = -float('inf'); return y")
    (case, *_) = cases(made)
    assert kind(case, right(case)) == ""
    got = right(case).clone()
    got[0] = value
    assert kind(case, got) != ""


def test_few_of_many_scores_may_be_left_by_a_mask() -> None:
    """A filter of a large vocabulary leaves one in a hundred."""
    keep = "torch.arange(100_000) % 100 == 0"
    made = task(f"return x.masked_fill(~({keep}), -float('inf'))", inputs="torch.randn(100_000)")
    (case, *_) = cases(made)
    got = right(case).clone()
    assert kind(case, got) == ""
    got[200] += 1
    assert kind(case, got) == "wrong_value"
    for nearly in ("torch.arange(100_000) < 20", "torch.arange(100_000) < 0"):
        with pytest.raises(UserError, match="not finite"):
            cases(task(f"return x.masked_fill(~({nearly}), -float('inf'))", inputs="torch.randn(100_000)"))


@pytest.mark.parametrize(
    ("others", "element", "value", "outcome"),
    [
        ("y[0] = float('inf')", 1, math.inf, ""),
        ("y[0] = float('inf')", 2, -math.inf, ""),
        ("y[0] = float('inf')", 2, math.inf, "non_finite"),
        ("y[0] = float('inf')", 1, math.nan, "non_finite"),
        ("y[0] = float('inf')", 1, 3.2e38, "wrong_value"),
        ("y[0] = float('inf')", 3, math.inf, "non_finite"),
        ("y[0] = 0.0", 1, math.inf, "non_finite"),
    ],
    ids=["overflowed", "below", "other sign", "nan", "another number", "no huge number", "none overflows"],
)
def test_a_huge_number_may_overflow_on_the_way_where_others_do(
    others: str, element: int, value: float, outcome: str
) -> None:
    made = task(f"y = x * 0; {others}; y[1] = 3.3e38; y[2] = -1e20; y[3] = 1e18; return y")
    (case, *_) = cases(made)
    got = right(case).clone()
    assert kind(case, got) == ""
    got[element] = value
    assert kind(case, got) == outcome


def test_at_scaled_inputs_what_nearly_overflows_beside_infinities_is_not_judged() -> None:
    made = task("y = x * 0; y[0] = float('inf'); y[1] = 3.3e38; return y")
    scaled = next(case for case in cases(made) if case.scale != 1.0)
    got = right(scaled).clone()
    got[1] = math.nan
    assert kind(scaled, got) == ""
    got[2] = math.nan
    assert kind(scaled, got) == "non_finite"


def test_where_the_reference_is_nan_anything_goes_but_only_there() -> None:
    made = task("y = x.clone(); y[0] = float('nan'); return y")
    (case, *_) = cases(made)
    got = right(case).clone()
    got[0] = 3.0
    assert kind(case, got) == ""
    got[1] = math.nan
    assert kind(case, got) == "non_finite"


def test_an_empty_output_is_right() -> None:
    made = task("return x[:0]")
    (case, *_) = cases(made)
    assert kind(case, torch.empty(0)) == ""


def test_a_distribution_for_which_the_reference_raises_is_passed_over() -> None:
    made = task(
        "return _checked(x)",
        inputs="torch.rand(N)",
        extra="""
def _checked(x):
    if x.min() < 0:
        raise ValueError("below zero")
    return x.sqrt()
""",
    )
    assert [case.scale for case in cases(made)][:4] == [1.0, 3.0, 0.01, 30.0]
    assert not any("-1" in case.name or "below" in case.name for case in cases(made))
    with pytest.raises(UserError, match="the reference raises ValueError: always"):
        cases(task("raise ValueError('always')"))


def test_an_overflowing_distribution_is_passed_over() -> None:
    made = task("return torch.exp(x.abs() * 40)")  # overflows float32 beyond 2.2
    names = [case.name for case in cases(made)]
    assert "small x1" in names
    assert "small x30" not in names


def test_a_distribution_that_nearly_overflows_is_passed_over() -> None:
    names = [case.name for case in cases(task("return x.clamp(-3, 3) * 1e36 if x.abs().max() > 9 else x"))]
    assert "small x1" in names
    assert "small x30" not in names


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=20),
    st.floats(0, 1),
    st.sampled_from(sorted(PROTOCOLS)),
)
def test_the_worst_error_is_a_share_of_the_allowed_one(values: list[float], share: float, name: str) -> None:
    rules = protocol(name)
    exact = torch.tensor(values, dtype=torch.float64)
    expected = Expected(
        value=exact,
        shape=tuple(exact.shape),
        dtype=torch.float64,
        honest_error=1e-9,
        typical=float(exact.abs().mean()),
        judged=None,
        infinite=None,
    )
    allowed = allowed_error(expected, exact, rules)
    assert bool((allowed >= 0).all())
    inside = compare(0, exact + 0.9 * share * allowed, expected, rules)
    assert inside.kind == ""
    assert inside.worst <= 1.0
    outside = compare(0, exact + 3.0 * allowed + 1e-6 * exact.abs() + 1e-9, expected, rules)
    assert outside.kind in ("wrong_value", "low_precision")


def test_a_larger_honest_error_never_tightens() -> None:
    value = torch.linspace(-3, 3, 50, dtype=torch.float64)
    base = Expected(value, (50,), torch.float32, 0.0, float(value.abs().mean()), None, None)
    allowed = [
        allowed_error(dataclasses.replace(base, honest_error=error), value, STRICT)
        for error in (0.0, 1e-7, 1e-5, 1e-3)
    ]
    assert all(bool((a <= b).all()) for a, b in itertools.pairwise(allowed))


def test_protocols_by_name() -> None:
    with pytest.raises(UserError, match="strict, kernelbench, toronto"):
        protocol("lenient")


def test_small_errors_beside_exact_values_are_no_rounding() -> None:
    exact = 100.0 + torch.rand(64, dtype=torch.float64)
    expected = expected_of(exact, exact.float())
    got = exact.float()
    got[::3] -= 0.5  # a maximum that leaves out a column
    assert compare(0, got, expected, protocol("strict")).kind == "wrong_value"
    assert compare(0, exact.half().float(), expected, protocol("strict")).kind == "low_precision"


def test_digits_lost_everywhere_show_in_the_spread() -> None:
    exact = torch.randn(4096, dtype=torch.float64)
    expected = expected_of(exact, exact.half())
    rules = protocol("strict")
    assert not compare(0, exact.half(), expected, rules).kind
    twice = exact.half() + (torch.rand(4096) - 0.5).half() * exact.half().abs() * 2**-10
    assert not compare(0, twice, expected, rules).kind
    comparison = compare(0, exact.bfloat16().half(), expected, rules)
    assert comparison.kind == "low_precision"
    assert comparison.mismatch is not None


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_a_long_sum_may_be_taken_one_term_after_the_other(mean: float) -> None:
    """As with atomics, while the honest run sums as a tree, which is far more exact."""
    generator = torch.Generator().manual_seed(3)
    for _ in range(4):
        values = torch.randn(65536, 64, generator=generator) + mean
        expected = dataclasses.replace(expected_of(values.double().sum(0), values.sum(0)), terms=65536.0)
        in_turn = torch.from_numpy(np.add.accumulate(values.numpy(), axis=0, dtype=np.float32)[-1].copy())
        assert not compare(0, in_turn, expected, STRICT).kind
        if not mean:  # else both are within the rounding of a large sum; draws around zero differ
            assert compare(0, in_turn - values[-1], expected, STRICT).kind
            assert compare(0, values.bfloat16().float().sum(0), expected, STRICT).kind


def test_scores_that_nearly_tie_are_decided_by_a_rounding() -> None:
    """Attention over inputs thirty times as large: honest runs exceed the preset there, each in different rows."""
    for seed in range(96):
        generator = torch.Generator().manual_seed(seed)
        q, k, v = (30 * torch.randn(4, rows, 32, generator=generator) for rows in (128, 96, 96))
        exact = torch.softmax(q.double() @ k.double().mT * 32**-0.5, -1) @ v.double()
        honest = torch.softmax(q @ k.mT * 32**-0.5, -1) @ v
        scores = torch.zeros(4, 128, 96)
        for term in range(32):
            scores += q[..., term, None] * k[..., None, :, term]
        in_turn = torch.softmax(scores * 32**-0.5, -1) @ v
        expected = dataclasses.replace(expected_of(exact, honest), slack=8.0)
        assert not compare(0, in_turn, expected, STRICT).kind
        rounded = torch.softmax(q.bfloat16().float() @ k.bfloat16().float().mT * 32**-0.5, -1) @ v
        assert compare(0, rounded, expected, STRICT).kind == "wrong_value"


def test_where_all_outputs_are_alike_inputs_are_drawn_again() -> None:
    # One row in sixteen is not zero, at any scale.
    rare = task("return torch.relu(torch.sign(x[:, 1:5]).sum(1) - 3)", inputs="torch.randn(2, 6)")
    again = 0
    for secret in range(40):
        made = cases(rare, secret=secret)
        more = [case for case in made if case.name.endswith("drawn again")]
        assert len(more) <= 1
        assert not more or (telling(made) and not telling(made[:-1]))
        again += len(more)
    assert again > 4


@pytest.mark.parametrize("body", ["return x.sum()", "return torch.softmax(x, 0)", "return x, x.mean()"])
def test_an_output_that_tells_needs_no_more(body: str) -> None:
    assert not any(case.name.endswith("drawn again") for case in cases(task(body)))


def test_an_output_that_is_always_the_same_ends_the_draws() -> None:
    made = cases(task("return torch.zeros_like(x)"))
    assert not any(case.name.endswith("drawn again") for case in made)


def test_a_number_that_its_dtype_does_not_hold_is_an_infinity() -> None:
    exact = torch.tensor([1.0, 106_975.0, -127_638.0], dtype=torch.float64)
    expected = expected_of(exact, torch.tensor([1.0, 64_000.0, -65_000.0]).half())
    assert not compare(0, exact.half(), expected, STRICT).kind
    assert compare(0, torch.tensor([torch.inf, 0.0, 0.0]).half(), expected, STRICT).kind == "non_finite"


def test_what_its_dtype_does_not_hold_says_nothing_of_the_size_of_others() -> None:
    exact = torch.tensor([1.0, 1e200, -1.0], dtype=torch.float64)
    expected = expected_of(exact, exact.float())
    assert expected.typical < 1
    assert compare(0, torch.tensor([1.0, torch.inf, -1.1]), expected, STRICT).kind == "wrong_value"


def test_what_lies_a_rounding_outside_of_a_references_domain_is_left_out() -> None:
    """binary_cross_entropy raises for the least number above 1; its sum reduces many elements to one."""
    body = "return nn.functional.binary_cross_entropy(0.5 + 0.0 * x, x, reduction='sum')"
    assert cases(task(body, inputs="(torch.rand(N) < 0.5).float()", n=256))


@pytest.mark.parametrize(
    ("body", "number", "asked"),
    [
        ("torch.roll(x, number, 0)", "int(torch.randint(0, 9, ()))", True),
        ("torch.roll(x, number, 0)", "3", False),
        ("x * max(min(number, 4), 0)", "int(torch.randint(0, 9, ()))", False),
        ("x[number:] * x[:-number].sum()", "int(torch.randint(1, 9, ()))", False),
    ],
)
def test_a_drawn_integer_lies_beyond_every_extent_unless_that_means_nothing(
    body: str, number: str, asked: bool
) -> None:
    source = MODULE.replace("(self, x)", "(self, x, number)")
    source = source.format(body=f"return {body}", inputs=f"torch.randn(N), {number}", n=9, extra="", init="")
    for secret in (2, 3):
        reference = Reference(Task(id="test/task", source=source, shapes={"small": {}}))
        _turn(reference, secret)
        taken = reference.inputs(secret)[1]
        assert (abs(taken) > 18) == asked
        assert (taken < 0) == (asked and secret == 2)


def test_integers_that_roundings_of_the_reference_decide_are_not_judged_where_numbers_are_scaled() -> None:
    made = cases(task("y = x + 1e5\n        return (y > y.mean()).long()", n=256))
    told = {}
    for case in made:
        one = case.expected[0]
        got = 1 - one.value.reshape(one.shape)
        told[case.name] = kind(case, got), kind(case, one.value.reshape(one.shape))
    assert told["small x1"] == told["small x30"] == ("wrong_value", "")
    assert told["small x0.01"] == ("", "")


def test_a_reference_that_raises_for_some_draws_alone_is_the_tasks_fault_not_ours() -> None:
    """Hidden sizes at which it does are passed over."""
    extra = "drawn = []"
    inputs = "torch.randn(N), torch.tensor([drawn.append(1) or 5 + len(drawn)])"
    source = MODULE.replace("(self, x)", "(self, x, at)")
    source = source.format(body="return x[at]", inputs=inputs, n=8, extra=extra, init="")
    with pytest.raises(UserError, match="raises IndexError"):
        shape_cases(Task(id="test/task", source=source), "small", {}, STRICT, 1, 0)
