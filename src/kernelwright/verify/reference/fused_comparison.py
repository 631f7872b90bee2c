"""The oracle's arithmetic over whole GPU tensors in one pass each: what takes torch fifteen passes, also in fp64.

The largest tasks have outputs of two billion elements; torch's temporaries for them take ten times as long as the
judged kernel. These kernels are the judge's own and run in its process.
"""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

_BLOCK = 1024
_PROGRAMS = 1056
"""Number of programs, eight for each SM of the largest GPU here; each makes a partial result over every n-th block."""
_launching = threading.Lock()
"""Verifications are threads, and two must not compile the same kernel at once."""


class Strayed(NamedTuple):
    """How an output differs from what was expected."""

    wrong: int
    """Elements out of tolerance, NaN included."""
    worst: float
    """Largest error as a share of the error allowed, if none is wrong."""
    squares: float
    """Sum of squared errors."""


class Spread(NamedTuple):
    """Differences of a reference in its own precision and in fp64, over elements that are finite in both."""

    error: float
    """Largest absolute difference."""
    squares: float
    """Sum of squared differences."""
    total: float
    """Sum of absolute values, in fp64."""
    square_total: float
    """Sum of squared values, in fp64."""
    finite: bool
    """Whether every element is finite in both."""


@triton.jit
def _strayed_kernel(got_ptr, value_ptr, rules_ptr, out_ptr, n, BLOCK: tl.constexpr):
    rtol, atol, typical = tl.load(rules_ptr), tl.load(rules_ptr + 1), tl.load(rules_ptr + 2)
    of_value, floor, slack = tl.load(rules_ptr + 3), tl.load(rules_ptr + 4), tl.load(rules_ptr + 5)
    program = tl.program_id(0).to(tl.int64)
    wrong = tl.zeros([BLOCK], tl.float64)
    worst = tl.zeros([BLOCK], tl.float64)
    squares = tl.zeros([BLOCK], tl.float64)
    start = program * BLOCK
    while start < n:
        at = start + tl.arange(0, BLOCK)
        inside = at < n
        got = tl.load(got_ptr + at, mask=inside, other=0.0).to(tl.float64)
        value = tl.load(value_ptr + at, mask=inside, other=0.0).to(tl.float64)
        error = tl.abs(got - value)
        allowed = tl.maximum(tl.abs(value), typical) * rtol + atol
        allowed = tl.minimum(allowed, tl.abs(value) * of_value + floor) * slack
        wrong += tl.where((error <= allowed) | (at >= n), 0.0, 1.0)
        worst = tl.maximum(worst, tl.where(inside, error / tl.maximum(allowed, 1e-300), 0.0))
        squares += tl.where(inside, error * error, 0.0)
        start += tl.num_programs(0) * BLOCK
    tl.store(out_ptr + program * 3, tl.sum(wrong, axis=0))
    tl.store(out_ptr + program * 3 + 1, tl.max(worst, axis=0))
    tl.store(out_ptr + program * 3 + 2, tl.sum(squares, axis=0))


@triton.jit
def _spread_kernel(exact_ptr, honest_ptr, out_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    error = tl.zeros([BLOCK], tl.float64)
    squares = tl.zeros([BLOCK], tl.float64)
    total = tl.zeros([BLOCK], tl.float64)
    square_total = tl.zeros([BLOCK], tl.float64)
    infinite = tl.zeros([BLOCK], tl.float64)
    start = program * BLOCK
    while start < n:
        at = start + tl.arange(0, BLOCK)
        inside = at < n
        exact = tl.load(exact_ptr + at, mask=inside, other=0.0).to(tl.float64)
        honest = tl.load(honest_ptr + at, mask=inside, other=0.0).to(tl.float64)
        both = ((exact - exact) == 0.0) & ((honest - honest) == 0.0)
        strayed = tl.where(both, tl.abs(exact - honest), 0.0)
        size = tl.where(both, tl.abs(exact), 0.0)
        error = tl.maximum(error, strayed)
        squares += strayed * strayed
        total += size
        square_total += size * size
        infinite += tl.where(both, 0.0, 1.0)
        start += tl.num_programs(0) * BLOCK
    tl.store(out_ptr + program * 5, tl.max(error, axis=0))
    tl.store(out_ptr + program * 5 + 1, tl.sum(squares, axis=0))
    tl.store(out_ptr + program * 5 + 2, tl.sum(total, axis=0))
    tl.store(out_ptr + program * 5 + 3, tl.sum(square_total, axis=0))
    tl.store(out_ptr + program * 5 + 4, tl.sum(infinite, axis=0))


def compare_fused(got: torch.Tensor, value: torch.Tensor, rules: tuple[float, ...]) -> Strayed:
    """Compare contiguous floating-point tensors of equal size; `rules` as from `comparison.rules`."""
    given = torch.tensor(rules, dtype=torch.float64, device=got.device)
    wrong, worst, squares = _partial(_strayed_kernel, 3, got, value, given, count=got.numel()).unbind(1)
    return Strayed(int(wrong.sum()), float(worst.max()), float(squares.sum()))


def spread(exact: torch.Tensor, honest: torch.Tensor) -> Spread:
    """Compare `exact` (fp64) with `honest`, both contiguous and of equal size."""
    found = _partial(_spread_kernel, 5, exact, honest, count=honest.numel())
    error, (squares, total, square_total, infinite) = found[:, 0].max(), found[:, 1:].sum(0)
    return Spread(float(error), float(squares), float(total), float(square_total), not float(infinite))


def _partial(kernel: Any, columns: int, *tensors: torch.Tensor, count: int) -> torch.Tensor:
    """Each program's partial results, in host memory."""
    # Triton 3.6 cannot compile a cast of 8-bit floats to fp64; float32 holds them all.
    tensors = tuple(one.float() if one.element_size() == 1 else one for one in tensors)
    programs = min(_PROGRAMS, math.ceil(count / _BLOCK))
    out = torch.empty(programs, columns, dtype=torch.float64, device=tensors[0].device)
    with _launching, torch.cuda.device_of(out):
        kernel[(programs,)](*tensors, out, count, BLOCK=_BLOCK)
    return out.cpu()
