"""Launches at full size as functions of the program's position: paths, classes, exact shares, writers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelwright.verify.interpret.interpreter import Engine
from kernelwright.verify.interpret.memory import OutOfBounds
from kernelwright.verify.interpret.slices import Planned, union

N = 1 << 20


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def odd_values(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(pid % 200 == 7, 0.0, x), mask=at < n)


@triton.jit
def odd_places(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    source = (pid + tl.where(pid % 200 == 7, 1, 0)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + source, mask=source < n, other=0.0), mask=at < n)


@triton.jit
def swizzled(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    high, wide = tl.cdiv(rows, ROWS), tl.cdiv(cols, COLS)
    group = pid // (GROUP * wide)
    first = group * GROUP
    size = min(high - first, GROUP)
    i = first + (pid % (GROUP * wide)) % size
    j = (pid % (GROUP * wide)) // size
    y, x = i * ROWS + tl.arange(0, ROWS), j * COLS + tl.arange(0, COLS)
    inside = (y[:, None] < rows) & (x[None, :] < cols)
    at = y[:, None] * cols + x[None, :]
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside), mask=inside)


@triton.jit
def looked_up(i_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.load(i_ptr + tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 1.0)


@triton.jit
def behind_a_number(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.load(x_ptr) < 1.0:
        at += n
    tl.store(out_ptr + at, 1.0)


@triton.jit
def ranked(out_ptr, count_ptr, last):
    if tl.atomic_add(count_ptr, 1) == last:
        tl.store(out_ptr, 1.0)


def planned(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: int) -> Planned:
    engine = Engine(lambda launch: 1.0)
    engine.mode, engine.dice = "plan", random.Random(3)
    with engine.installed():
        engine.launch(kernel, grid, arguments, constants)
    (found,) = engine.planned
    return found


def tensor(count: int = N, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(count, dtype=dtype, device="meta")


def share(launch: Planned, which: torch.Tensor, kind: str = "write") -> float | None:
    found = launch.touched(which.untyped_storage()._cdata, (kind,))
    return None if found is None else union(found, 0, which.nbytes) / which.nbytes


@pytest.mark.parametrize("count", [N, N - 5])
def test_the_whole_is_written_and_read_also_where_the_last_block_is_masked(count: int) -> None:
    x, out = tensor(count), tensor(count)
    launch = planned(copy, (1024,), x, out, count, BLOCK=1024)
    assert launch.whole
    assert len(launch.routes) == (1 if count == N else 2)
    assert share(launch, out) == share(launch, x, "read") == 1.0


def test_a_grid_that_is_too_small_is_told_exactly() -> None:
    x, out = tensor(), tensor()
    launch = planned(copy, (881,), x, out, N, BLOCK=1024)
    assert share(launch, out) == 881 / 1024


def test_a_swizzled_grid_covers_all_of_a_ragged_matrix() -> None:
    x, out = tensor(1000 * 777), tensor(1000 * 777)
    launch = planned(swizzled, (8 * 13,), x, out, 1000, 777, ROWS=128, COLS=64, GROUP=3)
    assert share(launch, out) == 1.0


def test_programs_that_store_something_else_are_a_class_of_their_own() -> None:
    x, out = tensor(), tensor()
    launch = planned(odd_values, (1024,), x, out, N, BLOCK=1024)
    assert share(launch, out) == 1.0
    drawn = launch.sample({}, random.Random(1))
    assert any(program % 200 == 7 for program in drawn)


def test_several_programs_that_load_elsewhere_are_drawn() -> None:
    """One alone may find the base row that it ought to."""
    x, out = tensor(), tensor()
    launch = planned(odd_places, (1024,), x, out, N, BLOCK=1024)
    drawn = launch.sample({}, random.Random(1))
    assert sum(program % 200 == 7 for program in drawn) == 6


def test_the_writers_of_a_place_are_found() -> None:
    x, out = tensor(), tensor()
    launch = planned(copy, (1024,), x, out, N, BLOCK=1024)
    needed = np.array([0, 4 * 1024 * 17, 4 * (N - 1)])
    found = launch.producers(out.untyped_storage()._cdata, needed)
    assert found is not None
    assert found.tolist() == [0, 17, 1023]


def test_places_that_hang_on_loaded_numbers_are_not_known() -> None:
    index, out = tensor(64, torch.int32), tensor(64 * 64)
    launch = planned(looked_up, (64,), index, out, BLOCK=64)
    assert share(launch, out) is None
    assert launch.producers(out.untyped_storage()._cdata, np.array([0])) is None


def test_an_arrival_that_decides_is_noticed() -> None:
    out, count = tensor(1), tensor(1, torch.int32)
    launch = planned(ranked, (64,), out, count, 63)
    assert launch.routes[0].map.ranked


def test_programs_whose_numbers_wrap_are_looked_at_by_themselves() -> None:
    x, out = tensor(1 << 32), tensor(1 << 32)
    with pytest.raises(OutOfBounds, match="element -2147483648") as stray:
        planned(copy, (1 << 20,), x, out, 2**31 - 1, BLOCK=4096)
    assert stray.value.certain


def test_a_stray_behind_a_decision_on_loaded_numbers_is_not_certain() -> None:
    x, out = tensor(), tensor()
    with pytest.raises(OutOfBounds) as stray:
        planned(behind_a_number, (1024,), x, out, N, BLOCK=1024)
    assert not stray.value.certain


def test_a_union_counts_overlaps_once() -> None:
    pieces = [(np.array([0, 4]), np.array([6, 8])), (np.array([20]), np.array([40]))]
    assert union(pieces, 0, 30) == 18
    assert union([], 0, 30) == 0
