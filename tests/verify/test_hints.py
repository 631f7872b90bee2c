"""Promises to the compiler, checked against the numbers."""

import numpy as np
import pytest

from kernelwright.verify.interpret.hints import as_promised


@pytest.mark.parametrize("kind", ["divisibility", "contiguity"])
def test_a_true_promise_changes_nothing(kind: str) -> None:
    block = np.arange(32, 64)
    assert as_promised(kind, [16], block) is block  # type: ignore[arg-type]


def test_rows_that_wrap_are_promised_to_go_on() -> None:
    rows = (np.arange(16) + 48) % 60
    assert as_promised("contiguity", [16], rows).tolist() == list(range(48, 64))


def test_rows_that_wrap_may_be_multiples_where_each_run_begins() -> None:
    rows = (np.arange(16) + 48) % 60
    assert as_promised("divisibility", [16], rows) is rows


def test_swapped_neighbours_are_no_multiples() -> None:
    swapped = np.arange(16) ^ 1
    assert not np.array_equal(as_promised("divisibility", [16], swapped), swapped)


def test_of_longer_runs_only_what_an_instruction_moves_counts() -> None:
    blocks = np.concatenate([np.arange(16), np.arange(16) + 100])
    assert as_promised("contiguity", [32], blocks) is blocks


def test_each_axis_has_its_own_promise() -> None:
    grid = np.arange(4)[:, None] * 7 + np.arange(8)[None, :]
    assert as_promised("contiguity", [1, 8], grid) is grid
    assert as_promised("contiguity", [4, 1], grid) is not grid


def test_a_constant_run_is_its_first_number() -> None:
    assert as_promised("constancy", [4], np.array([3, 3, 3, 4])).tolist() == [3, 3, 3, 3]
