"""Sizes at their full length, the others at their least."""

from __future__ import annotations

import math

from kernelwright.records import Task
from kernelwright.verify.reference.long_sizes import long_sets

SOURCE = "ROWS = 4096\nCOLS = 8192\nGROUPS = 8\n"
SETS = {
    "small": {"ROWS": 8, "COLS": 256, "GROUPS": 4},
    "small_odd": {"ROWS": 5, "COLS": 211, "GROUPS": 4},
}


def _task() -> Task:
    return Task(id="own/rows", source=SOURCE, shapes=SETS)


def _elements(sizes) -> float:
    return sizes["ROWS"] * sizes["COLS"] / 2**17


def test_each_size_is_once_as_long_as_at_full_size_while_the_other_is_small() -> None:
    found = long_sets(_task(), list(SETS), _elements)
    assert {(one["ROWS"], one["COLS"]) for one in found} == {(3, 8192), (4096, 6)}


def test_sizes_that_go_together_share_a_set() -> None:
    found = long_sets(_task(), list(SETS), lambda sizes: _elements(sizes) / 1000)
    assert [(one["ROWS"], one["COLS"]) for one in found] == [(4096, 8192)]


def test_what_is_too_much_is_taken_as_far_as_may_be() -> None:
    found = long_sets(_task(), list(SETS), lambda sizes: _elements(sizes) * 16)
    assert all(_elements(one) * 16 <= 1.0 for one in found)
    assert any(1024 <= one["COLS"] < 8192 for one in found)


def test_a_reference_that_takes_none_of_them_has_none() -> None:
    assert long_sets(_task(), list(SETS), lambda sizes: math.inf) == []
