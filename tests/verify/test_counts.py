"""Counts that overflow their type at full size, derived from a program's operations."""

from __future__ import annotations

import random

import pytest
import torch
import triton
import triton.language as tl

from kernelwright.verify.interpret.interpreter import OVERFLOW, Engine


@triton.jit
def count(x_ptr, out_ptr, rounds, BLOCK: tl.constexpr, KIND: tl.constexpr, LANES: tl.constexpr):
    total = tl.zeros((BLOCK,), LANES)
    for step in range(rounds):
        x = tl.load(x_ptr + (tl.program_id(0) * rounds + step) * BLOCK + tl.arange(0, BLOCK))
        total += tl.where(x > 0.0, 1, 0).to(LANES)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total.to(tl.int32), axis=0).to(KIND))


@triton.jit
def largest(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, tl.max((x > 0.0).to(tl.int32), axis=0).to(tl.int8))


def noted(kernel: object, kind: torch.dtype, *arguments: object, **constants: object) -> bool:
    engine = Engine(lambda launch: 1.0)
    engine.mode, engine.dice = "plan", random.Random(3)
    given = (torch.empty(1 << 20, device="meta"), torch.empty(16, dtype=kind, device="meta"), *arguments)
    with engine.installed():
        engine.launch(kernel, (1,), given, constants)
    return any(item[-1] == OVERFLOW for item in engine.planned[0].does)


@pytest.mark.parametrize(
    ("rounds", "kind", "lanes", "leaves"),
    [
        (31, tl.int16, tl.int32, False),
        (32, tl.int16, tl.int32, True),
        (32, tl.int32, tl.int32, False),
        (127, tl.int32, tl.int8, False),
        (128, tl.int32, tl.int8, True),
    ],
)
def test_a_count_is_held_to_the_type_that_it_is_kept_in(
    rounds: int, kind: tl.dtype, lanes: tl.dtype, leaves: bool
) -> None:
    dtype = torch.int16 if kind == tl.int16 else torch.int32
    assert noted(count, dtype, rounds, BLOCK=1024, KIND=kind, LANES=lanes) is leaves


def test_the_largest_of_truth_values_is_one() -> None:
    assert not noted(largest, torch.int8, BLOCK=1024)
