"""Knobs: finding block sizes, warps and stages, and climbing over them."""

import ast
from pathlib import Path

import pytest

from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Candidate, Completion, Prompt, Rollout, Timing, Verdict
from kernelwright.search.knobs import knobs, neighbours, set_knobs
from kernelwright.search.tune import tune

KERNEL = """
import triton
import triton.language as tl
BLOCK_M, BLOCK_N = 64, 128
GROUP: tl.constexpr = 8


@triton.jit
def product(x_ptr, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    for k in range(0, n, BLOCK_K):
        pass


def run(x, n):
    grid = (triton.cdiv(n, BLOCK_M) * triton.cdiv(n, BLOCK_N),)
    product[grid](
        x, n, BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=32, GROUP=GROUP, num_warps=8,
    )
"""


def found(code: str) -> dict[str, int]:
    return {knob.name: knob.value for knob in knobs(code)}


def test_constants_arguments_and_options_are_knobs() -> None:
    assert found(KERNEL) == {
        "BLOCK_M": 64,
        "BLOCK_N": 128,
        "GROUP": 8,
        "BLOCK_K of product": 32,
        "num_warps of product": 8,
        "num_stages of product": 3,
    }


def test_knobs_are_turned_and_the_rest_of_the_text_stays() -> None:
    values = {"BLOCK_M": 128, "BLOCK_K of product": 64, "num_stages of product": 4, "num_warps of product": 4}
    made = set_knobs(KERNEL, values)
    assert found(made) == {**found(KERNEL), **values}
    assert "BLOCK_M, BLOCK_N = 128, 128" in made
    assert "BLOCK_K=64, GROUP=GROUP, num_warps=4, num_stages=4,\n" in made
    ast.parse(made)
    assert set_knobs(KERNEL, found(KERNEL) | {"num_stages of product": 3}).count("num_stages=3") == 1


def test_an_unknown_knob_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="BLOCK_M, "):
        set_knobs(KERNEL, {"BLOCK": 2})


def launch(arguments: str, grid: str = "(triton.cdiv(n, 1024),)", decorator: str = "") -> str:
    return (
        f"BLOCK = triton.next_power_of_2(7)\n{decorator}@triton.jit\n"
        "def k(x_ptr, n, BLOCK: tl.constexpr, BLOCK_N: tl.constexpr = 16, SIZE: tl.constexpr = 1):\n    pass\n"
        f"def run(x, n):\n    k[{grid}](x, n, {arguments})\n"
    )


def test_a_literal_that_the_grid_repeats_is_one_knob_with_it() -> None:
    made = set_knobs(launch("BLOCK=1024"), {"BLOCK of k": 2048})
    assert "k[(triton.cdiv(n, 2048),)](x, n, BLOCK=2048)" in made


TWO = """
import torch, triton, triton.language as tl
@triton.jit
def parts_kernel(x_ptr, y_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, PARTS * BLOCK):
        pass
@triton.jit
def tiles_kernel(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    to = row * BLOCK_N + tl.arange(0, BLOCK_N)
def f(x, y, m, n):
    parts_kernel[(16,)](x, y, n, PARTS=16, BLOCK=64)
    tiles_kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64))](x, y, m, n, BLOCK_M=64, BLOCK_N=64)
"""


def test_a_grid_belongs_to_its_own_launch_and_its_axes_to_the_blocks_they_count() -> None:
    blocks = {name: value for name, value in found(TWO).items() if "BLOCK" in name}
    assert blocks == {
        "BLOCK of parts_kernel": 64,
        "BLOCK_M of tiles_kernel": 64,
        "BLOCK_N of tiles_kernel": 64,
    }
    assert set_knobs(TWO, {"BLOCK of parts_kernel": 32}) == TWO.replace("BLOCK=64)", "BLOCK=32)")
    wide = set_knobs(TWO, {"BLOCK_N of tiles_kernel": 128})
    assert "(triton.cdiv(m, 64), triton.cdiv(n, 128))](x, y, m, n, BLOCK_M=64, BLOCK_N=128)" in wide


def test_literals_that_cannot_be_told_apart_are_turned_together() -> None:
    assert found(launch("BLOCK=64, BLOCK_N=64", grid="(n // 64, n // 64)"))["BLOCK=BLOCK_N of k"] == 64
    assert set(found(launch("BLOCK=64, BLOCK_N=64"))) >= {"BLOCK of k", "BLOCK_N of k"}


@pytest.mark.parametrize(
    ("code", "left"),
    [
        (launch("BLOCK=BLOCK"), ["num_warps of k"]),
        (launch("BLOCK=triton.next_power_of_2(n), SIZE=64"), ["num_warps of k"]),
        (launch("BLOCK=48"), ["num_warps of k"]),
        (launch("BLOCK=1024, **options"), ["BLOCK of k"]),
        (launch("1024, num_warps=w"), ["BLOCK of k"]),
        (launch("BLOCK=1024", decorator="@triton.autotune([])\n"), []),
        ("def broken(:", []),
    ],
    ids=["computed", "inline", "no power of two", "options", "unknown warps", "tunes itself", "no Python"],
)
def test_what_is_computed_or_tunes_itself_is_left_alone(code: str, left: list[str]) -> None:
    assert list(found(code)) == left


def test_options_that_are_computed_are_knobs_where_it_is_known_what_they_were() -> None:
    code = launch("1024, num_warps=8 if n > 9 else 4")
    seen = {"k": {"num_warps": 8, "num_stages": 3}}
    assert {knob.name: knob.value for knob in knobs(code, seen)} == {"BLOCK of k": 1024, "num_warps of k": 8}
    assert "num_warps=16)" in set_knobs(code, {"num_warps of k": 16}, seen)


def test_an_honest_kernel_with_its_knobs_turned_parses_and_keeps_its_knobs() -> None:
    counted = 0
    for path in sorted((Path(__file__).parents[1] / "honest").glob("*.py"))[::10]:
        code = path.read_text("utf-8")
        for knob in knobs(code):
            for value in knob.neighbours():
                made = set_knobs(code, {knob.name: value})
                ast.parse(made)
                assert made != code
                counted += 1
    assert counted > 50


@pytest.mark.parametrize(
    ("kind", "value", "near"),
    [
        ("num_warps", 4, (8, 2)),
        ("num_warps", 16, (8,)),
        ("num_stages", 1, (2,)),
        ("block", 16, (32,)),
        ("block", 8, (16,)),
        ("count", 1, (2,)),
        ("block", 16384, (8192,)),
    ],
)
def test_neighbours_stay_within_what_gpus_run(kind: str, value: int, near: tuple[int, ...]) -> None:
    assert neighbours(kind, value) == near


def rollout(code: str, ms: float | None, plan: str = "") -> Rollout:
    timed = ms is not None
    return Rollout(
        task_id="t",
        stage="tune",
        prompt=Prompt(
            task_id="t", agent="backend", messages=({"role": "user", "content": "?"},), max_tokens=1
        ),
        completion=Completion(text=code),
        candidate=Candidate(plan=plan, code=code),
        verdict=Verdict(
            task_id="t",
            outcome=Outcome.CORRECT if timed else Outcome.OUT_OF_RESOURCES,
            gate=Gate.TIMING,
            timing=Timing(
                kind="modelled",
                target="h200",
                candidate_ms=ms,
                candidate_ci=(ms, ms),
                baseline_ms={"eager": 1.0},
                speedup_ci={"eager": (1 / ms, 1 / ms)},
            )
            if ms is not None
            else None,
        ),
    )


class Landscape:
    """Best at BLOCK_M 256 and 4 warps; nothing runs with BLOCK_K above 64. Counts verdicts, up to `most`."""

    def __init__(self, most: int = 1000) -> None:
        self.judged, self.most = 0, most

    def time(self, code: str) -> float | None:
        at = found(code)
        if at["BLOCK_K of product"] > 64:
            return None
        return 1 + abs(at["BLOCK_M"] - 256) / 64 + abs(at["num_warps of product"] - 4) / at["BLOCK_M"]

    def __call__(self, variants: list[Candidate]) -> list[Rollout]:
        variants = variants[: self.most - self.judged]
        self.judged += len(variants)
        return [rollout(v.code, self.time(v.code), v.plan) for v in variants]


def test_climbing_finds_the_top_and_stops_there() -> None:
    land = Landscape()
    best = tune(rollout(KERNEL, land.time(KERNEL)), land)  # type: ignore[arg-type]
    at = found(best.candidate.code)
    assert (at["BLOCK_M"], at["num_warps of product"]) == (256, 4)
    assert land.judged < 100


def test_climbing_crosses_a_dip_of_one_step() -> None:
    def judge(variants: list[Candidate]) -> list[Rollout]:
        return [rollout(v.code, time(found(v.code)), v.plan) for v in variants]

    def time(at: dict[str, int]) -> float:
        turned = {name for name, value in at.items() if value != found(KERNEL)[name]}
        deep, ahead = at["BLOCK_K of product"] == 64, at["num_stages of product"] == 4
        return 0.8 if deep and ahead else 1.05 if deep or ahead else 1.2 if turned else 1.0

    at = found(tune(rollout(KERNEL, 1.0), judge).candidate.code)  # type: ignore[arg-type]
    assert (at["BLOCK_K of product"], at["num_stages of product"]) == (64, 4)


def test_climbing_ends_with_the_budget_and_hands_on_the_best_so_far() -> None:
    land = Landscape(most=2)
    best = tune(rollout(KERNEL, land.time(KERNEL)), land)  # type: ignore[arg-type]
    assert found(best.candidate.code)["BLOCK_M"] == 128


def test_without_knobs_or_a_time_nothing_is_tried() -> None:
    land = Landscape()
    plain = rollout("x = 1", 1.0)
    assert tune(plain, land) is plain  # type: ignore[arg-type]
    assert land.judged == 0


def test_the_model_is_not_followed_into_its_rounding() -> None:
    def judge(variants: list[Candidate]) -> list[Rollout]:
        return [rollout(v.code, 0.999, v.plan) for v in variants]

    slow = rollout(KERNEL, 1.0)
    assert tune(slow, judge) is slow  # type: ignore[arg-type]
