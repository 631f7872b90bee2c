"""Some sizes at their full length, the others at their smallest."""

from __future__ import annotations

import math
import random

import pytest
import torch

from kernelwright.graph.capture import capture
from kernelwright.records import Task
from kernelwright.search.ladder import function_form
from kernelwright.search.whole import shrunk
from kernelwright.verify.judge import Judge, _estimated_sets
from kernelwright.verify.protocol import protocol
from kernelwright.verify.reference.long_sizes import (
    between_sets,
    both_long,
    held_sizes,
    long_sets,
    one_more_full,
    stretched,
)

SOURCE = "ROWS = 4096\nCOLS = 8192\nGROUPS = 8\n"
SETS = {
    "small": {"ROWS": 8, "COLS": 256, "GROUPS": 4},
    "small_odd": {"ROWS": 5, "COLS": 211, "GROUPS": 4},
}


def _task() -> Task:
    return Task(id="own/rows", source=SOURCE, shapes=SETS)


def _elements(sizes) -> float:
    return sizes["ROWS"] * sizes["COLS"] / 2**17


def test_two_lengths_that_are_not_long_together_lie_beyond_a_block_and_no_multiple_of_one_apart() -> None:
    usual = [{"ROWS": 4096, "COLS": 6, "GROUPS": 4}, {"ROWS": 3, "COLS": 8192, "GROUPS": 4}]
    for seed in range(20):
        made = both_long(_task(), list(SETS), usual, random.Random(seed))
        assert 128 < made["ROWS"] < made["COLS"]
        assert (made["COLS"] - made["ROWS"]) % 16
    assert not both_long(_task(), list(SETS), [{"ROWS": 4096, "COLS": 8192}], random.Random(1))


def test_each_size_is_once_as_long_as_at_full_size_while_the_other_is_small() -> None:
    found = long_sets(_task(), list(SETS), _elements)
    assert {(one["ROWS"], one["COLS"]) for one in found} == {(3, 8192), (4096, 6)}


def test_sizes_that_go_together_share_a_set() -> None:
    found = long_sets(_task(), list(SETS), lambda sizes: _elements(sizes) / 1000)
    assert [(one["ROWS"], one["COLS"]) for one in found] == [(4096, 8192)]
    found = long_sets(_task(), list(SETS), lambda sizes: _elements(sizes) / 1000, apart=True)
    assert {(one["ROWS"], one["COLS"]) for one in found} == {(3, 8192), (4096, 6)}


def test_what_is_too_much_is_taken_as_far_as_may_be() -> None:
    found = long_sets(_task(), list(SETS), lambda sizes: _elements(sizes) * 16)
    assert all(_elements(one) * 16 <= 1.0 for one in found)
    assert any(1024 <= one["COLS"] < 8192 for one in found)


def test_a_graph_without_work_has_no_estimate() -> None:
    assert _estimated_sets(_task(), list(SETS), lambda sizes: 0.0, _elements, 1.0) is None


def test_a_reference_that_takes_none_of_them_has_none() -> None:
    assert long_sets(_task(), list(SETS), lambda sizes: math.inf) == []


def test_sizes_on_which_something_hangs_stay_full_and_the_others_are_small() -> None:
    held = held_sizes(_task(), lambda sizes: sizes["COLS"] > 4000, lambda sizes: True)
    assert held == {"ROWS": 5, "COLS": 8192, "GROUPS": 4}
    longer = one_more_full(_task(), held, lambda sizes: _elements(sizes) / 128)
    assert longer == [{**held, "ROWS": 2048, "GROUPS": 1}, {**held, "ROWS": 1, "GROUPS": 8}]


def test_one_size_at_a_time_is_stretched_as_far_as_may_be() -> None:
    found = stretched(_task(), list(SETS), lambda sizes: _elements(sizes) * 4)
    assert [name for name, _ in found] == ["COLS", "ROWS"]
    assert {"COLS": found[0][1]["COLS"], "ROWS": found[1][1]["ROWS"]} == {"COLS": 4096, "ROWS": 128}
    assert stretched(_task(), list(SETS), lambda sizes: math.inf) == [("", SETS["small"])]


def test_they_are_smaller_yet_where_that_does_not_fit() -> None:
    held = held_sizes(_task(), lambda sizes: sizes["COLS"] > 4000, lambda sizes: sizes["ROWS"] < 4)
    assert held == {"ROWS": 3, "COLS": 8192, "GROUPS": 3}


def test_those_of_a_graph_are_told_by_its_types(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(96, 192), torch.nn.GELU(), torch.nn.Linear(192, 4096))
    captured = capture(layers.eval(), (torch.randn(64, 96),))
    graph, shapes = shrunk(captured.graph, captured.part.arguments)
    task = function_form(graph, captured.part.arguments, shapes, "partial").task
    judge = Judge(protocol("strict"), "h200", secret=7)
    done = judge._cost
    asked: dict[str, float] = {}
    monkeypatch.setattr(judge, "_cost", lambda task, sizes: asked.setdefault(str(sizes), done(task, sizes)))
    found = judge._long_sets(task, 1)
    assert len(asked) == len(found)
    assert found == long_sets(task, judge.small(task), lambda sizes: done(task, sizes))
    monkeypatch.setattr(judge, "_cost", lambda task, sizes: math.inf)
    assert judge._long_sets(task, 1) == []


def test_sizes_between_go_from_the_small_ones_to_the_full_ones() -> None:
    shapes = {"small": {"ROWS": 8, "COLS": 64}, "small_odd": {"ROWS": 4, "COLS": 64}}
    made = Task(id="test/between", suite="test", source="ROWS = 4096\nCOLS = 4096\n", shapes=shapes)
    found = between_sets(made, list(shapes))
    assert [sizes["ROWS"] for sizes in found] == [13, 40, 128, 406, 1290]
    assert all(sizes["COLS"] == 64 for sizes in found)
