"""Special values: chosen for the operators of a reference, and only where the reference may be judged on them."""

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from kernelwright.records import Task
from kernelwright.verify.judge import Judge
from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference import distributions, special_values
from kernelwright.verify.reference.comparison import compare_or_round
from kernelwright.verify.reference.operators import sides

SOURCE = """
import torch
import torch.nn.functional as F

class Model(torch.nn.Module):
    def forward(self, x):
        return {body}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""


CONTENT = ("images", "thin")


def cases(body: str, inputs: str = "torch.randn(12, 40)") -> dict[str, Any]:
    task = Task(id="t/t", source=SOURCE.format(body=body, inputs=inputs), shapes={"small": {}})
    found = Judge(PROTOCOLS["strict"], "h200", 3).cases(task)[0].cases
    kinds = {case.name.removeprefix("small, "): case for case in found if case.name.startswith("small, ")}
    return {kind: case for kind, case in kinds.items() if kind != "shapes"}


@pytest.mark.parametrize(
    ("body", "inputs", "kinds"),
    [
        (
            "F.gelu(x)",
            "torch.randn(12, 40)",
            {"rows", "ties", *CONTENT, "far", "extreme", "minute", "ladder"},
        ),
        (
            "F.layer_norm(x, (40,))",
            "torch.randn(12, 40)",
            {"rows", "ties", *CONTENT, "far", "offset", "ladder"},
        ),
        ("x @ x.t()", "torch.randn(12, 40)", {"rows", "ladder", "sparse"}),
        ("(x @ x.t()).softmax(1)", "torch.randn(12, 40)", {"ladder", "degenerate", "sparse"}),
        (
            "F.layer_norm(x @ x.t(), (12,))",
            "torch.randn(12, 40)",
            {"ladder", "degenerate", "level", "sparse"},
        ),
        ("torch.topk(x, 3)[0]", "torch.randn(12, 40)", {"far", "apart", "least", "tied", "chosen"}),
        ("x * 2 + 1", "torch.randint(0, 100, (12, 40))", {"integers", "whole numbers"}),
        ("((x * 2 + 1) * x - 3) * x", "torch.randn(12, 40)", {"rows", "ties", *CONTENT, "far", "ladder"}),
        ("x.sum(1)", "torch.randint(0, 100, (12, 40))", {"integers", "whole numbers", "alike"}),
        (
            "torch.log1p(x.abs())",
            "torch.randn(12, 40)",
            {"rows", "ties", *CONTENT, "far", "extreme", "minute", "tiny", "ladder"},
        ),
        (
            "(x.square().mean(1) + 1e-9).sqrt()",
            "torch.randn(12, 40)",
            {"rows", "ties", *CONTENT, "far", "tiny", "ladder"},
        ),
        (
            "torch.nan_to_num(x * 0.5)",
            "torch.randn(12, 40)",
            {"rows", "ties", *CONTENT, "far", "extreme", "minute", "nan", "ladder"},
        ),
        ("x.sum(1)", "torch.rand(12, 40) > 0.5", {"masks", "alike", "whole numbers"}),
        ("x.sum(1)", "torch.ones(12, 12).tril() > 0", {"whole numbers"}),
        (
            "(x.square().sum(1) * 1e-11).clamp(max=2.0)",
            "torch.randn(12, 40)",
            {"rows", "ties", *CONTENT, "far", "tiny", "ladder"},
        ),
        ("torch.zeros(9)[x]", "torch.randint(0, 9, (12,))", {"whole numbers", "alike"}),
        (
            "torch.div(x, 4, rounding_mode='floor')",
            "torch.randint(0, 99, (12,))",
            {"integers", "whole numbers"},
        ),
        ("F.dropout(x, training=False) + torch.rand(1) * 0", "torch.randn(12, 40)", set()),
    ],
)
def test_operators_say_which_kinds_there_are(body: str, inputs: str, kinds: set[str]) -> None:
    assert set(cases(body, inputs)) == kinds


@pytest.mark.parametrize(
    ("body", "kind", "wrong"),
    [
        ("F.normalize(x, dim=1)", "rows", lambda x: x / x.norm(dim=1, keepdim=True)),
        ("torch.sign(x) + x", "rows", lambda x: torch.where(x > 0, 1.0, -1.0) + x),
        ("torch.where(x >= 0.3, x, -x)", "rows", lambda x: torch.where(x > 0.3, x, -x)),
        ("1.0 / x", "rows", lambda x: torch.where(x == 0, 0.0, 1.0 / x)),
        ("torch.round(x)", "ties", lambda x: torch.floor(x + 0.5)),
        ("F.silu(x)", "far", lambda x: F.silu(x.clamp(-1000, 1000))),
        ("x.amax(1)", "far", lambda x: x.amax(1).clamp_min(-1e4)),
        ("x.amin(1)", "least", lambda x: x.amin(1).clamp_max(1e6)),
        ("torch.round(x)", "beyond", lambda x: (x + 12582912.0) - 12582912.0),
        (
            "F.layer_norm(x, (40,))",
            "offset",
            lambda x: (x - x.mean(1, True)) / ((x * x).mean(1, True) - x.mean(1, True) ** 2 + 1e-5).sqrt(),
        ),
        ("x * 2.0", "extreme", lambda x: (x * 2.0).clamp(-3e38, 3e38)),
        ("torch.log1p(x.abs())", "tiny", lambda x: (1 + x.abs()).log()),
        (
            "x * (x.square().mean(1, True) + 1e-9).rsqrt()",
            "tiny",
            lambda x: x / (x.square().mean(1, True).sqrt() + 1e-9),
        ),
        ("torch.nan_to_num(x)", "nan", lambda x: x),
        (
            "torch.bucketize(x, torch.tensor([-1.7, 0.3]))",
            "rows",
            lambda x: (x >= 0.3).long() + (x >= -1.7).long(),
        ),
        ("x.abs() + 1", "extreme", lambda x: (x * x).sqrt() + 1),
    ],
)
def test_what_a_kernel_may_leave_out_shows(body: str, kind: str, wrong: Any) -> None:
    case = cases(body)[kind]
    (x,) = case.inputs

    def kind_of(got: torch.Tensor) -> str:
        rules = PROTOCOLS["strict"]
        return compare_or_round(0, got, case.expected[0], rules, lambda: case.with_roundings()[0]).kind

    assert kind_of(wrong(x))
    assert not kind_of(case.module(x))


@pytest.mark.parametrize("body", ["x.unfold(1, 5, 1).mean(-1)", "F.avg_pool1d(x, 5, stride=2)"])
def test_what_does_not_hang_on_a_lone_element_is_held_to_what_it_was(body: str) -> None:
    case = cases(body)["outlier"]
    (x,), (expected,) = case.inputs, case.expected
    made = case.module(x)
    judged = expected.judged.reshape(made.shape)
    assert bool(judged.any())
    assert not bool(judged.all())
    assert torch.equal((made.abs() < 1e20), judged)
    assert not compare_or_round(0, made, expected, PROTOCOLS["strict"], lambda: expected).kind
    totals = F.pad(x.double().cumsum(1), (1, 0))
    step = x.shape[1] // made.shape[1]
    windows = ((totals[:, 5:] - totals[:, :-5]) / 5)[:, ::step].float()
    assert compare_or_round(0, windows, expected, PROTOCOLS["strict"], lambda: expected).kind


@pytest.mark.parametrize(
    "body",
    [
        "x.flip(1).cumsum(1).flip(1)",
        "x.sum(1)",
        "F.layer_norm(x, (40,))",
        "x.unfold(1, 5, 1).square().mean(-1)",
        "x.unfold(1, 5, 1).amax(-1) > 0",
    ],
)
def test_no_lone_element_where_a_reference_has_no_windows_or_no_number_for_it(body: str) -> None:
    assert "outlier" not in cases(body)


def test_long_integers_that_are_only_subtracted_lie_near_one_another_where_double_loses_digits() -> None:
    drawn = "torch.randint(0, 100, (12, 40))"
    near = cases("x - x[:1]", drawn)["integers"].inputs[0]
    assert bool(((near >= 1 << 60) & (near < (1 << 60) + (1 << 20))).any())
    assert int(cases("x * 2 - x", drawn)["integers"].inputs[0].max()) < 1 << 54
    assert int(cases("x.argmax(1)", drawn)["integers"].inputs[0].max()) > 1 << 62


def test_the_largest_of_a_row_lie_in_one_lane_whatever_the_width() -> None:
    x = torch.randn(4, 1000)
    crowded = special_values.with_special_values([x], "crowded", 3, ())[0]
    assert torch.equal(crowded.sort(1).values, x.sort(1).values)
    places = crowded[0].topk(7).indices
    assert all(len(set((places % lanes).tolist())) == 1 for lanes in (2, 16, 64))


def test_rows_of_halves_lie_below_what_kernels_begin_at() -> None:
    lowest = cases("x.amax(1)", "torch.randn(12, 40).half()")["apart"].inputs[0]
    assert bool((lowest.amax(1) < -10_000).any())
    assert bool(torch.isfinite(lowest).all())


def test_one_operator_of_half_precision_is_held_to_digits_of_its_own() -> None:
    def first(body: str) -> Any:
        source = SOURCE.format(body=body, inputs="torch.randn(64, 64).bfloat16()")
        task = Task(id="t/t", source=source, shapes={"small": {}})
        return Judge(PROTOCOLS["strict"], "h200", 3).cases(task)[0].cases[0].expected[0]

    expected, rules = first("F.gelu(x)"), PROTOCOLS["strict"]
    exact = expected.value.reshape(expected.shape)
    cut = torch.where(exact.abs() < 1e-3, 0.0, exact).to(torch.bfloat16)
    assert compare_or_round(0, cut, expected, rules, lambda: expected).kind
    assert not compare_or_round(0, exact.to(torch.bfloat16), expected, rules, lambda: expected).kind
    assert not first("F.gelu(x) + x").own_digits


def test_integers_grow_beyond_what_narrow_ones_hold_and_keep_their_sign() -> None:
    (x,) = cases("x * 2 + 1", "torch.randint(0, 100, (12, 40))")["integers"].inputs
    assert x.max() > 1 << 32
    assert x.min() >= 0


def test_a_range_that_inputs_are_drawn_from_is_kept_and_so_are_zeros() -> None:
    x = torch.rand(12, 40)
    for kind in ("rows", "ties", "far", "extreme"):
        made = special_values.with_special_values([x], kind, 1, (0.25,))[0]
        assert x.min() <= made.min() <= made.max() <= x.max()
    triangle = torch.randn(12, 12).tril()
    assert torch.equal(
        special_values.with_special_values([triangle], "rows", 1, ())[0].triu(1), torch.zeros(12, 12)
    )


def test_symmetric_matrices_and_strides_stay() -> None:
    symmetric = torch.randn(8, 8)
    symmetric = symmetric + symmetric.t()
    assert torch.equal(special_values.with_special_values([symmetric], "far", 1, ())[0], symmetric)
    turned = torch.randn(40, 12).t()
    assert not torch.equal(special_values.with_special_values([turned], "rows", 1, ())[0], turned)


def test_a_vector_is_cut_into_parts() -> None:
    made = special_values.with_special_values([torch.randn(60)], "far", 1, ())[0]
    assert float(made[:30].abs().max()) > 1000.0
    assert math.isclose(float((made[30:] < -1e4).double().mean()), 1.0)


def test_rows_of_several_scales_keep_scores_within_what_single_precision_holds() -> None:
    given = [torch.randn(64, 32, generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    for weighed in (False, True):
        query, key = special_values.with_special_values(given, "ladder", 3, (), weighed=weighed)
        most = float((query @ key.T).abs().max()) / math.sqrt(32)
        assert 1e6 < most < 1e8 if weighed else most > 1e9


def test_of_two_operators_that_round_no_bracket_may_overflow_where_a_number_is_asked_for() -> None:
    case = cases("F.silu(x) * x")["extreme"]
    (x,) = case.inputs
    product_first = x * x * torch.sigmoid(x)
    assert not product_first.isfinite().all()
    rules = PROTOCOLS["strict"]
    assert not compare_or_round(0, product_first, case.expected[0], rules, lambda: case.expected[0]).kind
    nothing_but = torch.full_like(x, math.inf)
    assert (
        compare_or_round(0, nothing_but, case.expected[0], rules, lambda: case.expected[0]).kind
        == "non_finite"
    )


def test_behind_products_any_number_will_do_where_the_reference_has_one() -> None:
    case = cases("F.normalize(x @ x.t(), dim=1)")["degenerate"]
    (expected,) = case.expected
    right = expected.value.reshape(expected.shape).float()
    assert bool((case.inputs[0] == 0.0).all(1).any())
    assert compare_or_round(0, right + 0.5, expected, PROTOCOLS["strict"], lambda: expected).kind == ""
    nothing = right.clone()
    nothing[0] = math.nan
    assert compare_or_round(0, nothing, expected, PROTOCOLS["strict"], lambda: expected).kind


def test_numbers_on_a_level_are_such_as_tf32_holds() -> None:
    (x,) = cases("F.layer_norm(x @ x.t(), (12,))")["level"].inputs
    assert float(x.mean()) / float(x.std()) > 50.0
    assert torch.equal(x, (x * 8.0).round() / 8.0)


def test_what_asks_for_finite_numbers_is_given_others() -> None:
    (given,) = cases("torch.where(torch.isfinite(x), x, 0.0)")["nan"].inputs
    assert given.isnan().any()
    assert given.isinf().any()


def test_decimals_are_halves_once_they_are_scaled() -> None:
    (given,) = cases("torch.round(x, decimals=2)")["ties"].inputs
    assert bool(((given * 100.0) % 1.0 == 0.5).any())


def test_the_bound_of_a_histogram_is_among_the_numbers() -> None:
    case = cases("torch.histc(x, 8, -4.0, 4.0)", "torch.randn(6)")["bounds"]
    assert bool((case.inputs[0] == 4.0).any())
    assert float(case.expected[0].honest_error) == 0.0


def test_half_of_what_is_multiplied_is_zero() -> None:
    (given,) = cases("x @ x.t()")["sparse"].inputs
    assert 0.3 < float((given == 0.0).float().mean()) < 0.7


def test_names_of_operators_are_told_by_their_parts() -> None:
    assert not special_values.multiplies(["cummax", "lgamma", "digamma", "mvlgamma"])
    assert all(map(special_values.multiplies, (["mm"], ["_int_mm"], ["addbmm"], ["linalg_eigh"])))
    assert special_values.inexact(["gelu", "leaky_relu", "lerp"]) == 3
    assert special_values.inexact(["ge", "logical_and", "clamp_min", "relu_"]) == 0


def test_what_is_sorted_stays_sorted() -> None:
    edges = torch.randn(20).sort().values
    for kind in ("rows", "ties", "far", "bounds", "ladder", "apart", "distant"):
        (made,) = special_values.with_special_values([edges], kind, 3, (0.5, 3.0))
        assert bool((made.diff() >= 0).all()), kind
    (made,) = distributions.scale_inputs([edges.flip(0)], -3.0)
    assert torch.equal(made, (edges * -3.0))


def test_zeros_of_both_signs_are_drawn_where_places_are_asked_for() -> None:
    (x,) = cases("x.argmax(-1)")["signs"].inputs
    assert bool((x == 0).any(-1).all())
    assert {float(one) for one in torch.copysign(torch.ones_like(x), x)[x == 0].unique()} == {-1.0, 1.0}


def test_minus_infinity_beside_a_running_logsumexp_stands_alone() -> None:
    kinds = special_values.kinds(["logcumsumexp"], [torch.randn(4, 9)], False)
    assert "lone" in kinds
    assert "masked" not in kinds
    made = special_values.with_special_values([torch.randn(40, 50)], "lone", 1, ())[0]
    masked = made.isneginf()
    assert masked.any()
    assert not (masked[:, 1:] & masked[:, :-1]).any()
    assert not masked[:, [0, -1]].any()


@pytest.mark.parametrize(
    ("body", "inputs", "wanted"),
    [
        ("F.hardshrink(x) + x.tanh()", "torch.randn(12, 40)", {0.5, -0.5, 0.25, 0.75}),
        ("x.clone().clamp_(min=2.0**-20).log()", "torch.rand(12, 40) + 0.1", {2.0**-20, 2.0**-21}),
        ("torch.where(x <= 1, x, 2.0)", "torch.rand(12, 40) * 5", {1.0, 0.5, 1.5}),
    ],
)
def test_bounds_of_inputs_are_asked_at_and_on_either_side(body: str, inputs: str, wanted: set[float]) -> None:
    made = cases(body, inputs)["bounds of inputs"]
    assert wanted <= set(made.inputs[0].reshape(-1).tolist())


def test_bounds_that_a_reference_computes_with_are_none_of_inputs() -> None:
    assert "bounds of inputs" not in cases("(x * 2).clamp(min=0.5).tanh()")


@pytest.mark.parametrize(("body", "random"), [("F.dropout(x)", True), ("F.dropout(x * 0)", False)])
def test_outputs_that_depend_on_drawn_numbers_are_known(body: str, random: bool) -> None:
    task = Task(id="t/t", source=SOURCE.format(body=body, inputs="torch.randn(12, 40)"), shapes={"small": {}})
    assert Judge(PROTOCOLS["strict"], "h200", 3).cases(task)[0].operators.random is random


def test_of_three_inputs_two_lie_near_one_another_and_the_third_near_zero() -> None:
    given = [torch.randn(12, 8) for _ in range(3)]
    a, b, c = special_values.with_special_values(given, "near", 3, ())
    rows = [
        one.abs().amax(1) < 1e-2 * other.abs().amax(1) for one, other in ((a, b), (b, c), (c, a), (a - b, c))
    ]
    assert [int(some.sum()) for some in rows] == [2, 2, 2, 6]


def test_behind_a_zero_no_part_of_a_product_is_infinite() -> None:
    x = torch.rand(5, 40) * 0.02 + 0.99
    made = special_values.with_special_values([x], "annulled", 3, ())[0]
    row = made[0][made[0] != 0].double().abs()
    assert len(row) == 39
    assert 1e30 < float(row.prod()) < 1e38
    assert float(row.min()) > 1.0


def test_what_a_comparison_finds_at_equality_alone_is_a_side() -> None:
    class Ratio(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x.norm() > 0, x / x.norm(), 1.0)

    assert sides(Ratio(), [torch.zeros(4)]) - sides(Ratio(), [torch.ones(4)])


@pytest.mark.parametrize("kind", ["alone", "alone_least"])
def test_lines_are_quiet_between_their_ends_or_hold_one_ordinary_number(kind: str) -> None:
    x = torch.randn(6, 640)
    made = special_values.with_special_values([x], kind, 5, ())[0]
    assert ((made[::3].abs() > 1.0).sum(1) == 2).all()
    for lines in (made[1::3], made[2::3]):
        assert ((lines.abs() < 1e3).sum(1) == 1).all()
    usual = special_values.with_special_values([x.abs()], kind, 5, ())[0]
    assert (usual >= 0).all()
    assert bool((usual > 1e5).any()) == (kind == "alone_least")


def test_every_other_image_has_squares_with_plain_borders() -> None:
    made = special_values.with_special_values([torch.randn(2, 32, 40)], "images", 1, ())[0]
    assert (made[0, 15] == 0).all()
    assert (made[0, :, [0, 16, 39]] == 0).all()
    assert (made[0, 1:15, 1:15] > 0).all()
    assert (made[1] > 0).all()


def test_probabilities_come_near_zero_where_the_logarithm_is_all() -> None:
    least = cases("torch.log(x)", "torch.rand(12, 40)")["rows"].inputs[0].min()
    assert 0 < float(least) < 1e-29
    least = cases("torch.log(x) * torch.log1p(x) + x.exp()", "torch.rand(12, 40)")["rows"].inputs[0].min()
    assert float(least) > 1e-7
