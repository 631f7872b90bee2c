"""What reaches an output of a planned call: partial results that are never added up do not count."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
import triton
import triton.language as tl

from kernelwright.verify.interpret import flow
from kernelwright.verify.interpret.interpreter import Engine
from kernelwright.verify.interpret.slices import Planned, union

ROWS, COLS = 4096, 128


@triton.jit
def in_parts(x_ptr, y_ptr, part_ptr, cols, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(HEIGHT):
        x = tl.load(x_ptr + (tl.program_id(0) * HEIGHT + step) * cols + at)
        tl.store(y_ptr + (tl.program_id(0) * HEIGHT + step) * cols + at, 2.0)
        total += x
    tl.store(part_ptr + tl.program_id(0) * cols + at, total)


@triton.jit
def added_up(part_ptr, out_ptr, parts, cols, LAST: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in range(parts):
        total += tl.load(part_ptr + part * cols + at, mask=(at < cols) & (part < LAST), other=0.0)
    tl.store(out_ptr + at, total)


def key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def call(
    last: int, parts: int = 64, thorough: bool = False
) -> tuple[Sequence[Planned], torch.Tensor, torch.Tensor, torch.Tensor]:
    """Launches of a sum over rows in `parts`, some of which are added up; its input and both of its outputs."""
    x, y, part = (torch.empty(rows, COLS, device="meta") for rows in (ROWS, ROWS, parts))
    out = torch.empty(COLS, device="meta")
    engine = Engine(lambda launch: 1.0)
    engine.mode, engine.dice, engine.thorough = "plan", random.Random(3), thorough
    with engine.installed():
        engine.launch(in_parts, (parts,), (x, y, part, COLS), {"HEIGHT": ROWS // parts, "BLOCK": COLS})
        engine.launch(added_up, (1,), (part, out, parts, COLS), {"LAST": last, "BLOCK": COLS})
    return engine.planned, x, y, out


@pytest.mark.parametrize("last", [64, 40, 1])
def test_what_is_read_for_parts_that_nobody_adds_up_reaches_nothing(last: int) -> None:
    launches, x, _, out = call(last)
    found = flow.needs(launches, {key(out): (0, out.nbytes)})
    assert found is not None
    assert union([found.places[key(x)]], 0, x.nbytes) == x.nbytes * last // 64
    assert max(share for _, share in flow.unused_stores(launches, found)) == 1.0 - last / 64


def test_parts_that_are_added_up_in_more_steps_than_usual_are_followed_where_that_is_asked_for() -> None:
    launches, x, _, out = call(200, parts=1024)
    assert [launch.cut for launch in launches] == [False, True]
    assert flow.needs(launches, {key(out): (0, out.nbytes)}) is None
    launches, x, _, out = call(200, parts=1024, thorough=True)
    found = flow.needs(launches, {key(out): (0, out.nbytes)})
    assert found is not None
    assert not any(launch.cut for launch in launches)
    assert union([found.places[key(x)]], 0, x.nbytes) == x.nbytes * 200 // 1024


def test_an_output_that_is_made_of_nothing_read_needs_no_input() -> None:
    launches, x, y, _ = call(64)
    found = flow.needs(launches, {key(y): (0, y.nbytes)})
    assert found is not None
    assert key(x) not in found.places
