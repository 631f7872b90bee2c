"""Searches on a recorded table stay within the budget, judge nothing twice, and find the optimum."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from nearby import nearby
from plan_searches import SEARCHES, Race, best_after, distance

from kernelwright.synth.plan import parse_plan, print_plan
from kernelwright.synth.program import (
    AttentionSchedule,
    Decisions,
    DepthwiseSchedule,
    MapSchedule,
    ProductSchedule,
    RowSchedule,
)

TILES = [(m, n) for m in (16, 32, 64, 128) for n in (16, 32, 64, 128)]


def race(**fields: object) -> Race:
    """Sixteen products: larger tiles are faster; one fails."""
    us = [1e4 / (m * n) ** 0.5 for m, n in TILES]
    given = {
        "name": "p", "plans": [f"{m}x{n}" for m, n in TILES], "us": [*us[:5], None, *us[6:]], "modelled": us,
        "schedules": [{"nest": "product", "tile": tile, "warps": 4} for tile in TILES],
    }  # fmt: skip
    return Race(**{**given, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in SEARCHES if name != "policy"])
@pytest.mark.parametrize("budget", [1, 7, 99])
def test_no_search_judges_twice_or_more_than_it_may(name: str, budget: int) -> None:
    tried = SEARCHES[name](race(), budget, random.Random(0))
    assert len(tried) == len(set(tried)) == min(budget, 16)


@pytest.mark.parametrize("name", [name for name in SEARCHES if name != "policy"])
def test_with_all_of_the_table_every_search_finds_the_best(name: str) -> None:
    assert best_after(race(), SEARCHES[name](race(), 16, random.Random(1)), 16) == 1.0


def test_a_model_that_is_right_needs_one_judged_kernel() -> None:
    assert best_after(race(), SEARCHES["cost model alone"](race(), 1, random.Random(0)), 1) == 1.0


def test_tune_begins_with_the_librarys_schedule_and_climbs() -> None:
    tried = SEARCHES["tune from the library's"](race(), 8, random.Random(0))
    assert tried[0] == 0
    assert best_after(race(), tried, 8) < best_after(race(), tried, 1)


def test_a_policy_pays_for_what_the_table_lacks_and_not_for_what_it_repeats() -> None:
    said = race(sampled=(("16x16", "nonsense", "16x16", "128x128"),))
    tried = SEARCHES["policy"](said, 8, random.Random(0))
    assert tried == [0, -1, 15]
    assert best_after(said, tried, 2) == 8.0
    assert best_after(said, tried, 3) == 1.0


def test_distance_counts_doublings_of_sizes() -> None:
    one = {"nest": "row", "block": 1024, "passes": "loop"}
    assert distance(one, {**one, "block": 2048}) < distance(one, {**one, "passes": "online"})
    assert distance(one, {**one, "nest": "map"}) > 10


@pytest.mark.parametrize(
    "known",
    [
        ProductSchedule(loads="descriptor", persistent=True),
        RowSchedule(passes="split", split=528),
        AttentionSchedule(),
        DepthwiseSchedule(),
        MapSchedule(),
    ],
)
def test_schedules_nearby_differ_and_are_legal(known: Decisions) -> None:
    found = list(nearby([known], "seed", tries=300))
    assert len(found) == len(set(found)) > 10
    assert known not in found
    assert all(parse_plan(print_plan("add", one)) == ("add", one) for one in found)
