"""Sizes that only the judge knows."""

import pytest
import torch

from kernelwright.graph.capture import capture
from kernelwright.outcomes import Outcome
from kernelwright.records import Task
from kernelwright.search.ladder import pose
from kernelwright.search.whole import shrunk
from kernelwright.verify.judge import Judge
from kernelwright.verify.protocol import protocol
from kernelwright.verify.reference.hidden_sizes import (
    NONE,
    asks_for_powers,
    hidden_sizes,
    kept_at_powers,
    leaves_a_rest,
    may_choose,
    may_decline,
    named_bounds,
    named_divisors,
    named_few,
    named_numbers,
    named_parts,
    ragged_sets,
    sizes_at,
    sizes_beyond,
    sizes_divided,
    sizes_of,
)

SOURCE = "ROWS = 4096\nCOLS = 8192\nWINDOW = 3\n"
SMALL = {"ROWS": 8, "COLS": 128, "WINDOW": 3}
ODD = {"ROWS": 5, "COLS": 101, "WINDOW": 3}


def task(**shapes: dict[str, int]) -> Task:
    return Task(id="test/sizes", suite="test", source=SOURCE, shapes=shapes)


def sets(secret: int, **shapes: dict[str, int]) -> dict[str, list[dict[str, int]]]:
    made = task(**shapes)
    return dict(hidden_sizes(made, list(shapes), secret))


@pytest.mark.parametrize("secret", range(20))
def test_a_middle_set_lies_between_small_and_full_and_changes_only_what_varies(secret: int) -> None:
    first = sets(secret, small=SMALL, small_odd=ODD)["hidden"][0]
    assert first["WINDOW"] == 3
    assert 5 <= first["ROWS"] <= 4096
    assert 101 <= first["COLS"] <= 8192
    assert first["ROWS"] * first["COLS"] <= 5 * 101 * 5
    assert first["COLS"] % 2 == 1


def test_one_set_is_a_batch_of_one() -> None:
    proposals = sets(3, small=SMALL, small_odd=ODD)["hidden_one"]
    assert proposals[0]["ROWS"] == 1
    assert proposals[0]["COLS"] > 1
    assert {"ROWS": 5, "COLS": 1, "WINDOW": 3} in proposals


@pytest.mark.parametrize("secret", range(5))
def test_another_size_that_varies_is_one_beside_a_few_of_the_first(secret: int) -> None:
    first, alone = sets(secret, small=SMALL, small_odd=ODD)["hidden_one_COLS"]
    assert first["ROWS"] in (2, 3, 4)
    assert first["COLS"] == alone["COLS"] == 1
    assert first["WINDOW"] == 3


def test_a_width_is_one_only_where_there_is_no_other_size() -> None:
    made = sets(3, small={"ROWS": 8, "STEPS": 6, "COLS": 64}, small_odd={"ROWS": 5, "STEPS": 7, "COLS": 45})
    assert [name for name in made if name.startswith("hidden_one")] == [
        "hidden_one",
        "hidden_one_STEPS",
        "hidden_one_of_2",
        "hidden_one_together",
    ]
    assert made["hidden_one_together"][0] == {"ROWS": 1, "STEPS": 1, "COLS": 45}


@pytest.mark.parametrize("secret", range(5))
def test_sizes_lie_below_the_extent_of_a_window(secret: int) -> None:
    made = sets(secret, small={"ROWS": 8, "STEPS": 9}, small_odd={"ROWS": 5, "STEPS": 7})
    of_window = {name: one[0] for name, one in made.items() if name.startswith("hidden_one_of_")}
    assert [one["STEPS"] for one in of_window.values()] == [2]
    without = task(small={"ROWS": 8}).model_copy(update={"source": "ROWS = 4096\nWINDOW = 64\n"})
    assert not any("of_" in name for name, _ in hidden_sizes(without, ["small"], secret))


def test_a_width_of_one_may_be_refused_and_a_batch_of_one_may_not() -> None:
    assert may_decline("hidden_one_COLS", Outcome.RUNTIME_ERROR, "ZeroDivisionError")
    assert not may_decline("hidden_one_COLS", Outcome.WRONG_ON_SHAPE, "")
    assert not may_decline("hidden_one", Outcome.RUNTIME_ERROR, "ZeroDivisionError")
    assert not may_decline("hidden_one_COLS", Outcome.RUNTIME_ERROR, "in a kernel: AssertionError")


def test_a_size_is_refused_by_an_assertion_or_a_raise_and_by_no_other_failure() -> None:
    for said in (
        "AssertionError (line 3: assert n % 8 == 0)",
        "ValueError: no (line 3: if n % 8: raise ValueError('no'))",
    ):
        assert asks_for_powers(Outcome.RUNTIME_ERROR, said)
    assert not asks_for_powers(Outcome.RUNTIME_ERROR, "IndexError: out of range (line 3: x[raised])")


PATHS = """
PAIR = 2

@triton.jit
def kernel(x_ptr, MODE: tl.constexpr):
    if MODE == 8:
        pass

def forward(x, k):
    if x.dim() == 4 or x.numel() % 16 == 0 or len(x.shape) == 4:
        return None
    return x.shape[0] == PAIR or x.shape[1] in (3, 32) or k < 4 or k == 1 or k == 6
"""


def test_small_numbers_that_a_path_is_taken_at_are_named() -> None:
    assert named_few(PATHS) == [2, 3, 4, 32]


def test_sets_are_at_a_small_number_that_no_small_set_has() -> None:
    made = sizes_at(task(small=SMALL, small_odd=ODD), ["small", "small_odd"], [2, 8])
    assert made == [{**ODD, "ROWS": 2}, {**ODD, "COLS": 2}, {**ODD, "COLS": 8}]


def test_no_set_of_one_where_a_small_set_has_it() -> None:
    assert "hidden_one" not in sets(3, small={"ROWS": 1, "COLS": 8}, small_odd={"ROWS": 2, "COLS": 1})


def test_other_secrets_give_other_sizes() -> None:
    drawn = {tuple(sets(secret, small=SMALL, small_odd=ODD)["hidden"][0].values()) for secret in range(20)}
    assert len(drawn) > 5


def test_a_task_whose_small_sets_agree_has_none() -> None:
    assert sets(1, small=SMALL, small_odd=SMALL) == {}


def test_numbers_that_sizes_are_divided_by_are_named() -> None:
    assert named_numbers("P = 97\ndef f(n):\n    return n % P == 0 or n == 1000") == [1000, 97]


def test_blocks_warps_and_thirds_name_nothing() -> None:
    assert named_numbers("def f(n):\n    return n % 128 + n % 3 + 97 * n + n // 77") == []


def test_numbers_that_share_a_divisor_or_are_looked_up_are_named() -> None:
    assert named_numbers("def f(n):\n    return math.gcd(n, 97) > 1 or n in (77, 99)") == [99, 97]


def test_one_size_lies_just_above_a_bound_that_a_candidate_names() -> None:
    bounds = named_bounds("LEAST = 2000\ndef f(n):\n    return LEAST < n < 4000 or n > 2.0")
    assert bounds == [2000, 4000]
    several = sizes_beyond(task(small=SMALL, small_odd=ODD), ["small", "small_odd"], bounds)
    made = [sizes for one in several for sizes in one]
    assert {"ROWS": 2001, "COLS": 3, "WINDOW": 3} in made
    assert {"ROWS": 3, "COLS": 2001, "WINDOW": 3} in made
    assert all(sizes["COLS"] <= 8192 for sizes in made)


def test_parts_that_a_candidate_cuts_something_into_are_named() -> None:
    assert named_parts("P = 1024\ndef f(n):\n    return triton.cdiv(n, P) + cdiv(n, 2) + cdiv(n, m)") == [
        1024
    ]


def test_sets_are_multiples_of_a_named_number() -> None:
    found = sizes_of(task(small=SMALL, small_odd=ODD), ["small", "small_odd"], 97, 5)
    assert found
    assert all(any(made[name] % 97 == 0 for name in ("ROWS", "COLS")) for made in found)
    assert all(made["WINDOW"] == 3 for made in found)


@pytest.mark.parametrize("secret", range(5))
def test_sizes_are_once_in_the_opposite_order_and_once_equal(secret: int) -> None:
    made = sets(secret, small=SMALL, small_odd=ODD)
    turned, equal = made["hidden_turned"][0], made["hidden_equal"][0]
    assert turned["ROWS"] > turned["COLS"]
    assert equal["ROWS"] == equal["COLS"]
    assert turned["WINDOW"] == equal["WINDOW"] == 3


def test_a_width_that_must_be_a_power_of_two_is_held_there_alone_and_is_drawn_no_more() -> None:
    made = task(small=SMALL, small_odd=ODD)
    kept = {tuple(names): one for one, names in kept_at_powers(made)}
    assert list(kept) == [("COLS",), ("ROWS",), ("ROWS", "COLS")]
    one = kept["COLS",]
    assert {name: sizes["COLS"] for name, sizes in one.shapes.items()} == {"small": 128, "small_odd": 128}
    assert one.shapes["small_odd"]["ROWS"] == 5
    drawn = [sizes for _, found in hidden_sizes(one, ["small", "small_odd"], 3) for sizes in found]
    assert drawn
    assert {sizes["COLS"] for sizes in drawn} == {128}


def test_so_is_one_that_is_full_in_the_first_set() -> None:
    made = task(small={"ROWS": 8}, small_odd={"ROWS": 8, "COLS": 67})
    kept = {tuple(names): one for one, names in kept_at_powers(made)}
    assert list(kept) == [("COLS",)]
    assert not any(sizes["COLS"] & (sizes["COLS"] - 1) for sizes in kept["COLS",].shapes.values())


def test_powers_that_are_too_narrow_are_widened_where_a_product_wants_that() -> None:
    made = task(small={"ROWS": 4, "COLS": 64}, small_odd={"ROWS": 4, "COLS": 128})
    assert not list(kept_at_powers(made))
    said = "AssertionError: Input shapes should have M >= 1, N >= 1 and K >= 16"
    assert [(one.shapes["small"], names) for one, names in kept_at_powers(made, said)] == [
        ({"ROWS": 16, "COLS": 64}, ["ROWS"])
    ]
    assert next(kept_at_powers(made, said.replace("16", "32")))[0].shapes["small_odd"] == {
        "ROWS": 32,
        "COLS": 128,
    }


def test_whoever_asserts_is_asked_at_wider_powers_at_last() -> None:
    made = task(small=SMALL, small_odd=ODD)
    asked = [one.shapes["small"] for one, _ in kept_at_powers(made, "AssertionError: whole blocks of 64")]
    assert [(one["ROWS"], one["COLS"]) for one in asked] == [
        *((8, 128), (16, 128), (16, 128)),
        *((8, 128), (128, 128), (128, 128)),
    ]


def test_a_size_that_is_no_power_of_two_at_full_size_is_never_held_there() -> None:
    made = task(small=SMALL, small_odd=ODD).model_copy(update={"source": "ROWS = 4000\nCOLS = 8191\n"})
    assert not list(kept_at_powers(made))


def test_near_the_full_size_nothing_divides() -> None:
    several, *single = ragged_sets(task(small=SMALL, small_odd=ODD), ["small", "small_odd"], 5)
    assert 0.6 * 4096 <= several["ROWS"] < 4096
    assert 0.6 * 8192 <= several["COLS"] < 8192
    assert all(-(-several[name] // tile) % 2 for name in ("ROWS", "COLS") for tile in (16, 32, 64, 128))
    assert (several["ROWS"] % 512, several["COLS"] % 1024) == (1, 1)
    assert sorted((one["ROWS"] < 4096, one["COLS"] < 8192) for one in single) == [
        (False, True),
        (True, False),
    ]


@pytest.mark.parametrize("full", [1024, 2048])
def test_near_the_full_size_the_last_block_has_one_lane(full: int) -> None:
    made = task(small=SMALL, small_odd=ODD).model_copy(update={"source": f"ROWS = {full}\nCOLS = {full}\n"})
    for secret in range(9):
        several, *_ = ragged_sets(made, ["small", "small_odd"], secret)
        assert (several["ROWS"] % 256, several["COLS"] % 256) == (1, 1)


def test_a_size_of_0_may_be_refused_and_may_not_be_wrong() -> None:
    assert may_decline(NONE, Outcome.COMPILE_ERROR, "arange's end argument must be greater")
    assert may_decline(NONE, Outcome.INPUT_MUTATED, "weight running_mean is changed in place")
    assert not may_decline(NONE, Outcome.OUT_OF_BOUNDS, "")
    assert not may_decline(NONE, Outcome.UNWRITTEN, "")


@pytest.mark.parametrize(
    ("forward", "chooses"),
    [
        ("kernel[(x.numel() // 4,)](x)", False),
        ("kernel[(4,)](x) if x.numel() > 99 else other[(4,)](x)", True),
        ("(kernel, other)[min(1, x.numel() // 99)][(4,)](x)", True),
        ("kernel[(4,)](x, WAY=x.numel() >> 20 & 1)", True),
    ],
)
def test_what_a_candidate_launches_may_hang_on_sizes(forward: str, chooses: bool) -> None:
    code = "@triton.jit\ndef kernel(x):\n    helper(x)\n\n\n@triton.jit\ndef helper(x):\n    if x:\n        pass\n\n\n"
    assert may_choose(f"{code}def forward(x):\n    {forward}\n", ["kernel"]) is chooses
    assert may_choose(f"{code}def forward(x):\n    {forward}\n", [])


def test_a_convolution_is_not_asked_about_no_channels_where_pytorch_drops_its_filters() -> None:
    captured = capture(torch.nn.Conv2d(24, 40, 3), (torch.randn(1, 24, 20, 28),))
    graph, shapes = shrunk(captured.graph, captured.part.arguments)
    judge = Judge(protocol("strict"), "h200", secret=7)
    assert judge.none_case(pose(graph, captured.part.arguments, shapes=shapes)) is None


def test_sizes_at_which_the_reference_itself_strays_are_left_out() -> None:
    """The sine of the fortieth octave is noise in single precision, and honest kernels were refused for it."""

    class Octaves(torch.nn.Module):
        def __init__(self, power: bool) -> None:
            super().__init__()
            self.power = power

        def forward(self, x: torch.Tensor, octaves: torch.Tensor) -> torch.Tensor:
            steps = torch.arange(octaves.shape[0])
            return torch.sin(x[:, None] * 1.1 * (2.0**steps if self.power else steps) + octaves)

    made = {}
    for power in (True, False):
        part = capture(Octaves(power), (torch.randn(64), torch.randn(6))).part
        graph, shapes = shrunk(part.graph, part.arguments)
        judge = Judge(protocol("strict"), "h200", secret=7)
        task = pose(graph, part.arguments, shapes=shapes)
        made[power] = {
            one.name: len(one.cases[0].module.forward(*one.cases[0].inputs)[0]) for one in judge.cases(task)
        }
    assert max(made[True].values()) < 24 < max(made[False].values())
    assert made[True].keys() <= made[False].keys()


@pytest.mark.parametrize(
    "even",
    [
        "n % 64 == 0",
        "n & 63 == 0",
        "triton.cdiv(n, 64) * 64 == n",
        "n // 64 * 64 == n",
        "n >> 6 << 6 == n",
    ],
)
@pytest.mark.parametrize(
    "code", ["even = {}\n", "@triton.heuristics({{'E': lambda n: {}}})\n@triton.jit\ndef k(n):\n    pass\n"]
)
def test_a_power_of_two_that_python_asks_to_divide_is_named(code: str, even: str) -> None:
    assert named_divisors(code.format(even)) == [64]
    (found,) = sizes_divided(task(small=SMALL, small_odd=SMALL | {"COLS": 101}), ["small", "small_odd"], [64])
    assert found["COLS"] % 128 == 64


def test_a_block_that_only_divides_names_no_size() -> None:
    assert named_divisors("grid = (triton.cdiv(n, 64),)\n") == []


@pytest.mark.parametrize(
    ("code", "rest"),
    [("per = tiles // splits\n", True), ("rows = x.numel() // n\n", False), ("half = n // 2\n", False)],
)
def test_a_quotient_of_two_unknown_numbers_may_have_a_rest(code: str, rest: bool) -> None:
    assert leaves_a_rest(code) is rest
